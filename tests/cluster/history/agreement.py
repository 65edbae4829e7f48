"""Brokers agree: on who leads, how far readers may read, and what the log holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.cluster.history.events import Deleted, EndSeen, Leading, Replica, StoredRecord, Watermark
from tests.cluster.history.history import Finding, History, ReplicaLog, TopicPartition, at, bare


def two_leaders(history: History) -> Iterator[Finding]:
    """An epoch has one leader, whoever says so."""
    first: dict[tuple[TopicPartition, int], Leading] = {}
    for event in history.of(Leading):
        earlier = first.setdefault((at(event), event.leader_epoch), event)
        if earlier.leader != event.leader:
            text = f"epoch {event.leader_epoch} of {at(event)} was led by {earlier.leader} and by {event.leader}"
            yield Finding("two leaders in one epoch", text, (earlier, event))
    for mark in history.of(Watermark):
        leader = first.get((at(mark), mark.leader_epoch))
        if leader is not None and leader.leader != mark.broker:
            text = f"broker {mark.broker} moved the watermark of {at(mark)} in an epoch that {leader.leader} leads"
            yield Finding("two leaders in one epoch", text, (leader, mark))


def epochs_fall(history: History) -> Iterator[Finding]:
    """For each observer, and from batch to batch of a log."""
    newest: dict[tuple[TopicPartition, str], Leading] = {}
    for event in history.of(Leading):
        earlier = newest.get((at(event), event.observer), event)
        if event.leader_epoch < earlier.leader_epoch:
            text = f"{event.observer} saw epoch {event.leader_epoch} of {at(event)} after {earlier.leader_epoch}"
            yield Finding("epoch went back", text, (earlier, event))
        newest[at(event), event.observer] = event
    for partition, logs in history.replicas.items():
        for log in logs:
            for earlier_batch, batch in pairwise(log.batches):
                if batch.leader_epoch < earlier_batch.leader_epoch:
                    text = f"in {partition} of broker {log.replica.broker}, at offset {batch.base_offset}"
                    yield Finding("epoch went back", text, (bare(earlier_batch), bare(batch)))


def watermark_fell(history: History) -> Iterator[Finding]:
    """For each reader; for each leader in its epoch while it lives; and nobody saw more than there is in the end."""
    seen: dict[tuple[TopicPartition, str], EndSeen] = {}
    for end in history.of(EndSeen):
        earlier = seen.get((at(end), end.reader), end)
        if end.offset < earlier.offset:
            text = f"{end.reader} saw the end of {at(end)} go from {earlier.offset} to {end.offset}"
            yield Finding("watermark went back", text, (earlier, end))
        seen[at(end), end.reader] = end
    marks: dict[tuple[TopicPartition, int, int, int], Watermark] = {}
    for mark in history.of(Watermark):
        before = marks.get((at(mark), mark.broker, mark.leader_epoch, mark.life), mark)
        if mark.offset < before.offset:
            text = f"broker {mark.broker} took the watermark of {at(mark)} from {before.offset} to {mark.offset}"
            yield Finding("watermark went back", text, (before, mark))
        marks[at(mark), mark.broker, mark.leader_epoch, mark.life] = mark
    for partition, logs in history.replicas.items():
        last = max((log.replica.high_watermark for log in logs if log.replica.in_sync), default=None)
        for (where, _), end in seen.items():
            if where == partition and last is not None and end.offset > last:
                text = f"{end.reader} saw {partition} end at {end.offset}, in the end its watermark is {last}"
                yield Finding("watermark went back", text, (end, *(log.replica for log in logs)))
        for (where, broker, _, _), mark in marks.items():
            if where == partition and last is not None and mark.offset > last:
                text = f"broker {broker} had committed {partition} up to {mark.offset}, in the end it is {last}"
                yield Finding("watermark went back", text, (mark, *(log.replica for log in logs)))


def replicas_differ(history: History) -> Iterator[Finding]:
    """In sync: byte for byte the same from the common start to the watermark. Compacted: in the newest values."""
    for partition, logs in history.replicas.items():
        in_sync = [log for log in logs if log.replica.in_sync]
        if len(in_sync) < 2:
            continue
        start = max(log.replica.log_start for log in in_sync)
        end = max(log.replica.high_watermark for log in in_sync)
        compare = _newest_differ if any(log.replica.compacted for log in in_sync) else _bytes_differ
        for other in in_sync[1:]:
            yield from compare(partition, in_sync[0], other, start, end)


def _bytes_differ(
    partition: TopicPartition, one: ReplicaLog, other: ReplicaLog, start: int, end: int
) -> Iterator[Finding]:
    sides = [
        {batch.base_offset: batch for batch in log.batches if batch.last_offset >= start and batch.base_offset < end}
        for log in (one, other)
    ]
    for offset in sorted(sides[0].keys() | sides[1].keys()):
        batches = [side.get(offset) for side in sides]
        if batches[0] is None or batches[1] is None or batches[0].digest != batches[1].digest:
            text = f"{partition} at {offset}: brokers {one.replica.broker} and {other.replica.broker}"
            shown = tuple(
                bare(batch) if batch else log.replica for batch, log in zip(batches, (one, other), strict=True)
            )
            yield Finding("replicas differ", text, shown)
            # All that follows differs too.
            return


def _newest_differ(
    partition: TopicPartition, one: ReplicaLog, other: ReplicaLog, start: int, end: int
) -> Iterator[Finding]:
    newest = [_newest(log, start, end) for log in (one, other)]
    for key in sorted(newest[0].keys() | newest[1].keys()):
        records = [side.get(key) for side in newest]
        # A tombstone and nothing mean the same.
        values = [record.value if record else None for record in records]
        if values[0] != values[1]:
            text = (
                f"{partition}: key {key} is {values[0]} on {one.replica.broker}, {values[1]} on {other.replica.broker}"
            )
            yield Finding("replicas differ", text, (one.replica, other.replica))


def _newest(log: ReplicaLog, start: int, end: int) -> dict[str, StoredRecord]:
    return {
        record.key: record for _, record in log.records() if record.key is not None and start <= record.offset < end
    }


def log_broken(history: History) -> Iterator[Finding]:
    """A log begins where something was deleted, has no holes, and reaches its watermark."""
    allowed: defaultdict[TopicPartition, int] = defaultdict(int)
    for deleted in history.of(Deleted):
        allowed[at(deleted)] = max(allowed[at(deleted)], deleted.before_offset)
    for partition, logs in history.replicas.items():
        for log in logs:
            replica = log.replica
            if replica.log_start > allowed[partition]:
                text = f"{partition} of broker {replica.broker} begins at {replica.log_start}; nobody deleted that"
                yield Finding("log start moved", text, (replica,))
            if not replica.compacted:
                yield from _holes(partition, log, replica)


def _holes(partition: TopicPartition, log: ReplicaLog, replica: Replica) -> Iterator[Finding]:
    expected, earlier = replica.log_start, None
    for batch in log.batches:
        if batch.base_offset > expected or (earlier is not None and batch.base_offset < expected):
            text = f"{partition} of broker {replica.broker} goes on at {batch.base_offset}, not at {expected}"
            yield Finding("hole in a log", text, (bare(earlier) if earlier else replica, bare(batch)))
        expected, earlier = batch.last_offset + 1, batch
    if replica.in_sync and expected < replica.high_watermark:
        text = (
            f"{partition} of broker {replica.broker} ends at {expected}, below its watermark {replica.high_watermark}"
        )
        yield Finding("hole in a log", text, (replica,))
