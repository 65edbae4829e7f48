from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.spark.core.option_values import OptionError
from penstock.spark.core.positions import (
    EARLIEST,
    LATEST,
    Everywhere,
    Offsets,
    Position,
    PositionError,
    Timestamps,
    check_batch_positions,
    parse_offsets,
    parse_partitions,
    parse_timestamp,
    parse_timestamps,
    resolve,
)
from penstock.spark.core.topic_partition import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Log:
    """Two partitions: offsets 5 to 10 with times of 100 an offset, and nothing in the other."""

    earliest, latest = {A0: 5, A1: 0}, {A0: 10, A1: 0}

    def __call__(self, wanted: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        return {partition: self._offset(partition, at) for partition, at in wanted.items()}

    def _offset(self, partition: TopicPartition, at: int) -> int | None:
        if at == EARLIEST:
            return self.earliest[partition]
        if at == LATEST:
            return self.latest[partition]
        later = [n for n in range(self.earliest[partition], self.latest[partition]) if n * 100 >= at]
        return later[0] if later else None


def resolved(position: Position, *, starting: bool = True) -> dict[TopicPartition, int]:
    return resolve(position, [A0, A1], Log(), starting=starting)


def test_words_and_offsets() -> None:
    assert resolved(parse_offsets(" Earliest")) == {A0: 5, A1: 0}
    assert resolved(parse_offsets("latest")) == {A0: 10, A1: 0}
    assert resolved(parse_offsets('{"a":{"0":7,"1":-1}}')) == {A0: 7, A1: 0}
    assert resolved(parse_offsets('{"a":{"0":-2,"1":3}}')) == {A0: 5, A1: 3}


def test_times() -> None:
    assert resolved(parse_timestamp("601", or_latest=True)) == {A0: 7, A1: 0}
    assert resolved(parse_timestamps('{"a":{"0":0,"1":5}}', or_latest=True)) == {A0: 5, A1: 0}


def test_a_time_after_the_last_record() -> None:
    wanted = parse_timestamp("5000", or_latest=False)
    with pytest.raises(PositionError, match="No offset matched from request of topic-partition a-0 and timestamp 5000"):
        resolved(wanted)
    assert resolved(wanted, starting=False) == {A0: 10, A1: 0}
    assert resolved(parse_timestamp("5000", or_latest=True)) == {A0: 10, A1: 0}


def test_partitions_that_are_not_those_of_the_topic() -> None:
    with pytest.raises(
        PositionError, match=r"start offsets don't match .* -2 for earliest. Specified: a-0 Assigned: a-0, a-1"
    ):
        resolved(parse_offsets('{"a":{"0":7}}'))
    with pytest.raises(PositionError, match="timestamp based end offsets don't match"):
        resolved(parse_timestamps('{"a":{"0":7,"1":1,"2":1}}', or_latest=False), starting=False)


@pytest.mark.parametrize(
    "text",
    ["", "newest", "[]", "{}", '{"a":1}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":true}}', '{"a":{"0":-3}}',
     '{"a":{"-1":3}}', '{"a":{"0":1.5}}', '{"a":{"0":9223372036854775808}}'],
)  # fmt: skip
def test_offsets_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match=r"Expected e\.g\. ") as refused:
        parse_offsets(text)
    assert str(refused.value).endswith(f"got {text}")


def test_times_that_are_none() -> None:
    with pytest.raises(OptionError, match="Expected a single long value, got yesterday"):
        parse_timestamp("yesterday", or_latest=False)
    with pytest.raises(OptionError, match=r"Expected e\.g\. "):
        parse_timestamps('{"a":{"0":-1}}', or_latest=False)


def test_assigned_partitions() -> None:
    assert parse_partitions('{"a":[0,1]}') == {A0, A1}
    for text in ("{}", '{"a":0}', '{"a":["0"]}', '{"a":[-1]}', "{a:[0]}", "[1]"):
        with pytest.raises(OptionError, match=r"Expected e\.g\. "):
            parse_partitions(text)


START, END = Everywhere(EARLIEST), Everywhere(LATEST)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (Everywhere(LATEST), END, "starting offset can't be latest for batch queries"),
        (START, Everywhere(EARLIEST), "ending offset can't be earliest for batch queries"),
        (Offsets({A0: LATEST}), END, "startingOffsets for a-0 can't be latest"),
        (START, Offsets({A0: EARLIEST}), "ending offset for a-0 can't be earliest"),
        (Offsets({A0: 3}), Offsets({A1: 3}), "should have the same topic-partitions"),
        (
            Offsets({A0: 4}),
            Offsets({A0: 3}),
            "The specified start offset 4 is greater than the end offset 3 for topic a",
        ),
        (Timestamps({A0: 4}), Timestamps({A0: 3}), "start timestamp 4 is greater than the end timestamp 3"),
    ],
)
def test_positions_that_no_batch_can_have(start: Position, end: Position, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        check_batch_positions(start, end)


@pytest.mark.parametrize(
    ("start", "end"),
    [(START, END), (Offsets({A0: 3}), Offsets({A0: LATEST})), (Offsets({A0: EARLIEST}), Offsets({A0: 0})),
     (Timestamps(5), Timestamps(3)), (Offsets({A0: 3}), Timestamps({A1: 3}))],
)  # fmt: skip
def test_positions_of_which_only_the_cluster_can_tell(start: Position, end: Position) -> None:
    check_batch_positions(start, end)
