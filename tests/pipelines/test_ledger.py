"""Ledgers and names, against sets of offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.core.ledger import Ledger, Range, Standing, ends, settled, standing
from penstock.pipelines.core.names import Attempt, Batches, checked_query
from penstock.pipelines.core.refusal import PipelineRefused

ranges = st.builds(
    lambda topic, partition, start, length: Range(topic, partition, start, start + length),
    st.sampled_from(["a", "b"]),
    st.integers(0, 1),
    st.integers(0, 20),
    st.integers(0, 6),
)


def offsets(found: Range) -> set[tuple[str, int, int]]:
    return {(found.topic, found.partition, offset) for offset in range(found.start, found.end)}


@given(st.lists(st.lists(ranges, max_size=4), max_size=6))
def test_a_ledger_holds_every_offset_once(batches: list[list[Range]]) -> None:
    ledger: Ledger | None = None
    model: set[tuple[str, int, int]] = set()
    for batch_id, batch in enumerate(batches):
        added = [offset for found in batch for offset in offsets(found)]
        if len(set(added)) < len(added) or not model.isdisjoint(added):
            with pytest.raises(PipelineRefused):
                settled(ledger, batch_id, "x", batch)
            continue
        model |= set(added)
        ledger = settled(ledger, batch_id, "x", batch)
        listed = [offset for found in ledger.ranges for offset in offsets(found)]
        assert len(listed) == len(set(listed))
        assert set(listed) == model
        # As few ranges as can say it.
        assert not any(
            one[:2] == other[:2] and one.end == other.start for one in ledger.ranges for other in ledger.ranges
        )
        assert Ledger.decode(ledger.encode(), "here") == ledger
        assert ends([ledger]) == {
            key: max(offset for *found, offset in model if tuple(found) == key) + 1
            for key in {(topic, partition) for topic, partition, _ in model}
        }


def test_how_an_attempt_stands() -> None:
    ledger = Ledger(4, "mine")
    assert standing(None, 0, "mine") is Standing.MISSING
    assert standing(ledger, 5, "mine") is Standing.MISSING
    assert standing(ledger, 4, "mine") is Standing.OURS
    assert standing(ledger, 4, "theirs") is Standing.TAKEN
    assert standing(ledger, 3, "mine") is Standing.PASSED


def test_a_ledger_that_cannot_be_read() -> None:
    with pytest.raises(PipelineRefused, match="the ledger in here cannot be read"):
        Ledger.decode("{", "here")


queries = st.from_regex(r"[A-Za-z0-9_-]{1,100}", fullmatch=True)
numbers = st.integers(0, 2**63 - 1)


@given(queries, numbers, numbers)
def test_names_come_apart_again(query: str, first: int, last: int) -> None:
    assert checked_query(query) == query
    batches = Batches(query, first, last)
    assert Batches.parse(batches.directory) == batches
    attempt = Attempt(query, first, str(last))
    assert Attempt.parse(attempt.name) == attempt


@pytest.mark.parametrize("query", ["", "a.b", "a/b", "x" * 101, "ä"])
def test_what_cannot_name_a_query(query: str) -> None:
    with pytest.raises(PipelineRefused):
        checked_query(query)
