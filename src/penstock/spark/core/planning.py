"""Which stretch of which log each task reads, and what was lost on the way there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.positions import PositionError
from penstock.spark.core.source_offset import SourceOffset
from penstock.spark.core.topic_partition import TopicPartition, listed

LOSS_IS_AN_ERROR = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false. Reason: "
)
LOSS_IS_A_WARNING = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you want your "
    'streaming query to fail on such cases, set the source option "failOnDataLoss" to "true".'
)


@dataclass(frozen=True, slots=True)
class Plan:
    """`losses` say what cannot be read, each a sentence; the ranges are what can be read without it."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[str, ...] = ()


def without_begin(start: SourceOffset, end: SourceOffset) -> frozenset[TopicPartition]:
    """The partitions that a stream has not read yet: of these the plan needs the earliest offsets."""
    renewed = start.renewed_topics(end)
    return frozenset(tp for tp in end.offsets if tp not in start.offsets or tp.topic in renewed)


def plan_stream(
    start: SourceOffset,
    end: SourceOffset,
    earliest: Mapping[TopicPartition, int],
    now: SourceOffset,
    cut_off: Mapping[TopicPartition, int] | None = None,
) -> Plan:
    """From `start` to `end`, which has the ids of all topics that there are.

    `earliest` has those partitions `without_begin` that are still there, `now` the ids that topics have by now: a batch
    that is done again may be of topics that there are no more. `cut_off`: where elections have cut logs below `start`.
    """
    renewed = start.renewed_topics(end)
    fresh = without_begin(start, end)
    gone = end.renewed_topics(now)
    losses = [_created_again(topic, start, end) for topic in sorted(renewed)]
    losses += [_created_again(topic, end, now) for topic in sorted(gone)]
    nameless = {tp for tp in end.offsets if tp.topic not in end.topic_ids}
    if missing := fresh - earliest.keys() | nameless:
        losses.append(f"Cannot find initial offsets for partitions {listed(missing)}. They may have been deleted.")
    for tp in sorted(fresh & earliest.keys()):
        if earliest[tp] != 0 and tp.topic not in renewed:
            losses.append(f"Added partition {tp} starts from {earliest[tp]} instead of 0.")
    if deleted := start.offsets.keys() - end.offsets.keys():
        losses.append(f"Partitions {listed(deleted)} have been deleted.")
    cut = {tp: offset for tp, offset in (cut_off or {}).items() if tp not in fresh}
    losses += [_cut_off(tp, start.offsets[tp], offset) for tp, offset in sorted(cut.items())]
    begins = {**start.offsets, **cut, **{tp: earliest[tp] for tp in fresh & earliest.keys()}}
    for tp in sorted(end.offsets.keys() - missing):
        if end.offsets[tp] < begins[tp]:
            losses.append(
                f"Partition {tp} offset was changed from {begins[tp]} to {end.offsets[tp]}. This could be either 1) a "
                "user error that the start offset is set beyond available offset when starting query, or 2) the kafka "
                "topic-partition is deleted and re-created."
            )
    ranges = _ranges({tp: begins[tp] for tp in end.offsets.keys() - missing if tp.topic not in gone}, end)
    return Plan(ranges, tuple(losses))


def _created_again(topic: str, before: SourceOffset, after: SourceOffset) -> str:
    return (
        f"Topic {topic} has been deleted and created again: its id was {before.topic_ids[topic]} and is "
        f"{after.topic_ids[topic]}."
    )


def _cut_off(partition: TopicPartition, begin: int, end: int) -> str:
    return (
        f"Partition {partition} was read up to offset {begin}, and an election has cut it off at {end}: what follows "
        "there are other records."
    )


def plan_batch(start: SourceOffset, end: SourceOffset) -> tuple[OffsetRange, ...]:
    """PositionError for a partition that would end before it starts, or has only one of both."""
    if start.offsets.keys() != end.offsets.keys() or start.renewed_topics(end):
        raise PositionError(
            f"different topic partitions for starting offsets topics[{listed(start.offsets)}] and ending offsets "
            f"topics[{listed(end.offsets)}]: they have changed while the query was planned"
        )
    for tp, begin in sorted(start.offsets.items()):
        if begin > end.offsets[tp]:
            raise PositionError(
                f"The resolved start offset {begin} is greater than the resolved end offset {end.offsets[tp]} for "
                f"topic {tp.topic} partition {tp.partition}. Check whether start offset is set beyond the end offset "
                "or the latest available offset after resolution, and whether the Kafka topic-partition is deleted "
                "and re-created."
            )
    return _ranges(start.offsets, end)


def _ranges(begins: Mapping[TopicPartition, int], end: SourceOffset) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(
            topic=tp.topic,
            topic_id=end.topic_ids[tp.topic],
            partition=tp.partition,
            start=begin,
            end=end.offsets[tp],
            leader_epoch=end.leader_epochs.get(tp, -1),
        )
        for tp, begin in sorted(begins.items())
        if begin < end.offsets[tp]
    )


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> tuple[OffsetRange, ...]:
    """One range per task: none larger than `max_records`, and about `min_partitions` of them if there is enough.

    Without either a partition is a task. Sizes are offsets, so a range may hold fewer records than it looks.
    """
    pieces = list(ranges)
    if max_records is not None:
        pieces = [piece for whole in pieces for piece in _cut(whole, math.ceil(_size(whole) / max_records))]
    if min_partitions is None or min_partitions <= len(pieces):
        return tuple(pieces)
    total = sum(_size(piece) for piece in pieces)
    # What stays whole does not count when the rest is shared out, else large ranges get too few.
    whole_size = [_size(piece) for piece in pieces if _share(_size(piece), total, min_partitions) == 1]
    rest = total - sum(whole_size)
    tasks = max(min_partitions - len(whole_size), 1)
    cut = []
    for piece in pieces:
        stays = _share(_size(piece), total, min_partitions) == 1
        cut += _cut(piece, 1 if stays else _share(_size(piece), rest, tasks))
    return tuple(cut)


def _share(size: int, total: int, tasks: int) -> int:
    return max(math.floor(size / total * tasks + 0.5), 1)


def _size(whole: OffsetRange) -> int:
    """Offsets, not records: compaction and transaction markers leave gaps."""
    return whole.end - whole.start


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    bounds = [whole.start + _size(whole) * part // parts for part in range(parts + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(bounds) if start < end]
