from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.core.source_offset import SourceOffset, SourceOffsetError
from penstock.spark.core.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ONE, TWO = UUID(int=1), UUID(int=2)

partitions = st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 2**31 - 1))


@given(st.dictionaries(partitions, st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))), st.randoms())
def test_what_is_written_is_read_and_equal_offsets_are_equal_texts(
    rows: dict[TopicPartition, tuple[int, int]], random: Any
) -> None:
    order = list(rows)
    random.shuffle(order)
    one, other = (
        SourceOffset(
            {tp: rows[tp][0] for tp in names},
            {tp: rows[tp][1] for tp in names},
            {tp.topic: UUID(int=len(tp.topic)) for tp in names},
            {tp: rows[tp][0] for tp in names if rows[tp][1] % 2},
        )
        for names in (list(rows), order)
    )
    text = json.dumps(one.document())
    assert text == json.dumps(other.document())
    assert SourceOffset.of_document(json.loads(text)) == one
    # Spark keeps the text; read and written again it must be the same.
    assert json.dumps(SourceOffset.of_document(json.loads(text)).document()) == text


def test_a_checkpoint_of_the_kafka_source_can_be_read() -> None:
    offset = SourceOffset.of_document({"a": {"0": 23, "1": 4}, "b": {"0": 1}})
    assert offset == SourceOffset({A0: 23, A1: 4, B0: 1})


@pytest.mark.parametrize(
    "document",
    [{"a": 1}, {"a": {"x": 1}}, {"a": {"0": "1"}}, {"a": {"offsets": {"0": None}}}, {"a": {"offsets": {}, "id": "x"}},
     {"logOffset": 3}, {"a": {"offsets": [1]}}],
)  # fmt: skip
def test_a_checkpoint_of_something_else_cannot(document: dict[str, Any]) -> None:
    with pytest.raises(SourceOffsetError, match="not of this source"):
        SourceOffset.of_document(document)


def test_an_election_alone_is_no_news() -> None:
    before = SourceOffset({A0: 5, A1: 7}, {A0: 1, A1: 1}, {"a": ONE})
    now = SourceOffset({A0: 5, A1: 8}, {A0: 2, A1: 2}, {"a": ONE})
    assert now.after(before) == SourceOffset({A0: 5, A1: 8}, {A0: 1, A1: 2}, {"a": ONE})


def test_the_end_of_a_first_batch_says_where_it_began() -> None:
    begun = SourceOffset({A0: 5, A1: 7})
    end = SourceOffset({A0: 6, A1: 7, B0: 1}, {}, {"a": ONE, "b": TWO}).after(begun)
    assert end.begun(SourceOffset({A0: 6, A1: 9, B0: 0})) == begun
    later = SourceOffset({A0: 8, A1: 7, B0: 1}, {}, {"a": ONE, "b": TWO}).after(end)
    assert later.begun(end) == end


def test_a_topic_with_another_id_is_another_topic() -> None:
    before = SourceOffset({}, {}, {"a": ONE, "b": ONE, "c": ONE})
    assert before.renewed_topics(SourceOffset({}, {}, {"a": ONE, "b": TWO, "d": TWO})) == {"b"}
