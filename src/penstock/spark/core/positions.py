"""Where to start and where to end, as options say it, and which offsets that is.

The rules and the words of errors are those of Spark's Kafka source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.spark.core.option_values import OptionError
from penstock.spark.core.topic_partition import TopicPartition, listed

# As Kafka's ListOffsets has them: an offset of a partition may be one of these instead.
LATEST = -1
EARLIEST = -2

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
_PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


class PositionError(ValueError):
    """Positions that do not fit what the cluster has, or each other."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """`at` is EARLIEST or LATEST, for all partitions there are."""

    at: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """For each partition an offset, or EARLIEST or LATEST. Exactly those partitions must be there."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record of a partition that is not older. `timestamps` is one for all, or one for each partition.

    Where there is none: the end of the log, if it is a position to end at or `or_latest`; else an error.
    """

    timestamps: int | Mapping[TopicPartition, int]
    or_latest: bool = False


Position = Everywhere | Offsets | Timestamps
# At which offset these partitions are, by EARLIEST, LATEST or a time in ms; None for a time after the last record.
Ask = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]]


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    try:
        listed_partitions = json.loads(text)
        found = [(topic, number) for topic, numbers in listed_partitions.items() for number in numbers]
    except (ValueError, AttributeError, TypeError):
        found = []
    if not found or not all(_is_within(number, 0, _INT_MAX) for _, number in found):
        raise OptionError(f"Expected e.g. {_PARTITIONS_EXAMPLE}, got {text}")
    return frozenset(TopicPartition(topic, number) for topic, number in found)


def parse_offsets(text: str) -> Position:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Everywhere(EARLIEST if word == "earliest" else LATEST)
    return Offsets(_by_partition(text, EARLIEST, _OFFSETS_EXAMPLE))


def parse_timestamps(text: str, *, or_latest: bool) -> Position:
    return Timestamps(_by_partition(text, 0, _TIMESTAMPS_EXAMPLE), or_latest)


def parse_timestamp(text: str, *, or_latest: bool) -> Position:
    try:
        timestamp = int(text.strip())
    except ValueError:
        timestamp = -1
    if not _is_within(timestamp, 0, _LONG_MAX):
        raise OptionError(f"Expected a single long value, got {text.strip()}")
    return Timestamps(timestamp, or_latest)


def _by_partition(text: str, at_least: int, example: str) -> dict[TopicPartition, int]:
    try:
        topics = json.loads(text)
        found = {
            TopicPartition(topic, int(number)): value
            for topic, partitions in topics.items()
            for number, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        found = {}
    good = all(
        _is_within(partition.partition, 0, _INT_MAX) and _is_within(value, at_least, _LONG_MAX)
        for partition, value in found.items()
    )
    if not found or not good:
        raise OptionError(f"Expected e.g. {example}, got {text}")
    return found


def _is_within(value: object, at_least: int, at_most: int) -> bool:
    # bool is an int to Python, not to whoever writes JSON.
    return isinstance(value, int) and not isinstance(value, bool) and at_least <= value <= at_most


def check_batch_positions(start: Position, end: Position) -> None:
    """What can be said without asking the cluster. OptionError for positions that no batch can have."""
    if start == Everywhere(LATEST):
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if end == Everywhere(EARLIEST):
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    for partition in _those_at(start, LATEST):
        raise OptionError(f"startingOffsets for {partition} can't be latest for batch queries on Kafka")
    for partition in _those_at(end, EARLIEST):
        raise OptionError(f"ending offset for {partition} can't be earliest for batch queries on Kafka")
    _check_order(start, end)


def _those_at(position: Position, at: int) -> list[TopicPartition]:
    if not isinstance(position, Offsets):
        return []
    return sorted(partition for partition, offset in position.offsets.items() if offset == at)


def _check_order(start: Position, end: Position) -> None:
    match start, end:
        case Offsets(first), Offsets(last):
            kind = "offset"
        case Timestamps(first, _), Timestamps(last, _) if not isinstance(first, int) and not isinstance(last, int):
            kind = "timestamp"
        case _:
            return
    if first.keys() != last.keys():
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for "
            f"start offset: {listed(first)}, topic-partitions for end offset: {listed(last)}."
        )
    for partition, value in sorted(first.items()):
        if value > last[partition] >= 0:
            raise OptionError(
                f"The specified start {kind} {value} is greater than the end {kind} {last[partition]} "
                f"for topic {partition.topic} partition {partition.partition}."
            )


def resolve(
    position: Position, partitions: Collection[TopicPartition], ask: Ask, *, starting: bool
) -> dict[TopicPartition, int]:
    """The offset of each of `partitions`, which are all that the query reads. PositionError if there is none."""
    match position:
        case Everywhere(at):
            return _answered(ask, dict.fromkeys(partitions, at))
        case Offsets(offsets):
            _check_assigned(offsets.keys(), partitions, "start offsets", starting)
            return dict(offsets) | _answered(ask, {tp: at for tp, at in offsets.items() if at < 0})
        case Timestamps(timestamps, or_latest):
            if isinstance(timestamps, int):
                timestamps = dict.fromkeys(partitions, timestamps)
            _check_assigned(timestamps.keys(), partitions, "timestamp based", starting)
            return _at_times(timestamps, ask, starting and not or_latest)


def _at_times(timestamps: Mapping[TopicPartition, int], ask: Ask, must_match: bool) -> dict[TopicPartition, int]:
    found = ask(timestamps)
    unmatched = sorted(partition for partition, offset in found.items() if offset is None)
    if unmatched and must_match:
        first = unmatched[0]
        raise PositionError(
            f"No offset matched from request of topic-partition {first} and timestamp {timestamps[first]}."
        )
    matched = {partition: offset for partition, offset in found.items() if offset is not None}
    return matched | _answered(ask, dict.fromkeys(unmatched, LATEST))


def _answered(ask: Ask, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """For EARLIEST and LATEST, which every log has."""
    if not wanted:
        return {}
    return {partition: offset for partition, offset in ask(wanted).items() if offset is not None}


def _check_assigned(
    specified: Collection[TopicPartition], assigned: Collection[TopicPartition], kind: str, starting: bool
) -> None:
    if set(specified) == set(assigned):
        return
    if kind == "timestamp based":
        what = f"timestamp based {'start' if starting else 'end'} offsets"
        hint = "or deleted while the query is running, or you didn't specify all the partitions."
    else:
        what = f"{'start' if starting else 'end'} offsets"
        hint = "or deleted while the query is running. Use -1 for latest, -2 for earliest."
    raise PositionError(
        f"Partitions specified for Kafka {what} don't match what are assigned. Maybe topic partitions are created "
        f"{hint} Specified: {listed(specified)} Assigned: {listed(assigned)}"
    )
