"""Values: what was acknowledged is there, once, in order, and nothing else is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from tests.cluster.history.events import Acked, AtPartition, Drained, Failed, Read, Sent, Stored, value_name
from tests.cluster.history.history import Finding, History, ReplicaLog, TopicPartition, at, bare

# Where a value was seen: offset, by whom
Sighting = tuple[int, AtPartition]


def lost(history: History) -> Iterator[Finding]:
    """Every acknowledged value is on every in-sync replica, at the offset that was said."""
    acked = history.by_partition(Acked)
    keys = {(sent.producer, sent.number): sent.key for sent in history.of(Sent) if sent.key is not None}
    for partition, events in acked.items():
        in_sync = [log for log in history.replicas.get(partition, []) if log.replica.in_sync]
        for log in in_sync:
            yield from _missing(log, events, keys)
        # Without any dump it is not known.
        if history.replicas and not in_sync:
            text = f"{partition} has acknowledged values and no in-sync replica"
            yield Finding("acked value lost", text, (events[0],))


def _missing(log: ReplicaLog, acked: list[Acked], keys: Mapping[tuple[str, int], str | None]) -> Iterator[Finding]:
    stored = log.by_offset()
    where = {record.value: record.offset for _, record in stored.values()}
    newest = {record.key: record.offset for _, record in stored.values()} if log.replica.compacted else {}
    for event in acked:
        value = value_name(event.producer, event.number)
        if event.offset is None:
            if value not in where:
                text = f"broker {log.replica.broker} has {value} nowhere in {at(event)}"
                yield Finding("acked value lost", text, (event, log.replica))
            continue
        if event.offset in stored:
            batch, record = stored[event.offset]
            if record.value != value:
                text = f"broker {log.replica.broker} has {record.value} at {event.offset} of {at(event)}, not {value}"
                yield Finding("acked value lost", text, (event, bare(batch)))
        elif event.offset >= log.replica.log_start and not _superseded(event, keys, newest, log):
            found = f"only at {where[value]}" if value in where else "nowhere"
            text = f"broker {log.replica.broker} has {value}, acknowledged at {event.offset} of {at(event)}, {found}"
            yield Finding("acked value lost", text, (event, log.replica))


def _superseded(
    event: Acked, keys: Mapping[tuple[str, int], str | None], newest: dict[str | None, int], log: ReplicaLog
) -> bool:
    """Compaction may have taken it: a newer record of its key is there."""
    if not log.replica.compacted or event.offset is None:
        return False
    return newest.get(keys.get((event.producer, event.number)), -1) > event.offset


def one_per_offset(history: History) -> Iterator[Finding]:
    """All readers of an offset, whenever and from whichever replica, get one value."""
    first: dict[tuple[TopicPartition, int], Read] = {}
    for read in history.of(Read):
        earlier = first.setdefault((at(read), read.offset), read)
        if earlier.value != read.value:
            text = f"offset {read.offset} of {at(read)} was {earlier.value} and then {read.value}"
            yield Finding("two values at one offset", text, (earlier, read))
    for partition, logs in history.replicas.items():
        for log in logs:
            for batch, record in log.committed():
                reading = first.get((partition, record.offset))
                if reading and record.value != reading.value:
                    text = f"{reading.value} was read at {record.offset} of {partition}, stored is {record.value}"
                    yield Finding("two values at one offset", text, (reading, bare(batch)))


def read_and_gone(history: History) -> Iterator[Finding]:
    """What anybody has read is on every in-sync replica: else others would read something else."""
    reads = history.by_partition(Read)
    for partition, logs in history.replicas.items():
        for log in logs:
            if not log.replica.in_sync or log.replica.compacted:
                continue
            offsets = {record.offset for _, record in log.records()}
            seen: set[int] = set()
            for read in reads.get(partition, []):
                gone = read.offset not in offsets and read.offset >= log.replica.log_start
                if gone and read.offset not in seen:
                    seen.add(read.offset)
                    text = f"{read.value}, read at {read.offset} of {partition}, is not on broker {log.replica.broker}"
                    yield Finding("read value lost", text, (read, log.replica))


def never_sent(history: History) -> Iterator[Finding]:
    """Also a value of which one byte is wrong."""
    sent = {(at(event), value_name(event.producer, event.number)) for event in history.of(Sent)}
    topics = {event.topic for event in history.of(Sent)}
    for value, (offset, event) in _sightings(history):
        if event.topic in topics and (at(event), value) not in sent:
            text = f"{value} at {offset} of {at(event)} was never sent there"
            yield Finding("value that nobody sent", text, (event,))


def failed(history: History) -> Iterator[Finding]:
    refused = {(at(event), value_name(event.producer, event.number)): event for event in history.of(Failed)}
    if not refused:
        return
    for value, (offset, event) in _sightings(history):
        if answer := refused.get((at(event), value)):
            text = f"{value} was refused, and is at {offset} of {at(event)}"
            yield Finding("failed value read", text, (answer, event))


def doubled(history: History) -> Iterator[Finding]:
    """An idempotent producer's value has one offset, for all who saw it."""
    idempotent = {value_name(event.producer, event.number): event for event in history.of(Sent) if event.idempotent}
    found: dict[str, Sighting] = {}
    told: set[str] = set()
    for value, sighting in _sightings(history):
        if value not in idempotent:
            continue
        offset, event = found.setdefault(value, sighting)
        if offset != sighting[0] and value not in told:
            told.add(value)
            text = f"{value} is at {offset} and at {sighting[0]} of {at(event)}"
            yield Finding("value doubled", text, (idempotent[value], event, sighting[1]))
    for acked in history.of(Acked):
        value = value_name(acked.producer, acked.number)
        if acked.offset is None or value not in found or value in told:
            continue
        offset, event = found[value]
        if offset != acked.offset:
            text = f"{value} was acknowledged at {acked.offset} of {at(acked)} and is at {offset}"
            yield Finding("value doubled", text, (acked, event))


def reordered(history: History) -> Iterator[Finding]:
    """The values of an idempotent producer in one partition stand in the order in which they were sent."""
    idempotent = {sent.producer for sent in history.of(Sent) if sent.idempotent}
    yield from _order_of_acks(history, idempotent)
    for partition, logs in history.replicas.items():
        for log in logs:
            last: dict[str, tuple[int, Stored]] = {}
            for batch, record in log.committed():
                producer, number = _parsed(record.value)
                if number is None or producer not in idempotent:
                    continue
                before, earlier = last.get(producer, (-1, batch))
                if number < before:
                    text = f"{producer}:{number} follows {producer}:{before} in {partition} at {record.offset}"
                    yield Finding("reordered", text, (bare(earlier), bare(batch)))
                last[producer] = (max(before, number), batch)


def _order_of_acks(history: History, idempotent: set[str]) -> Iterator[Finding]:
    by_producer: defaultdict[tuple[TopicPartition, str], list[Acked]] = defaultdict(list)
    for acked in history.of(Acked):
        if acked.offset is not None and acked.producer in idempotent:
            by_producer[at(acked), acked.producer].append(acked)
    for (partition, producer), events in by_producer.items():
        events.sort(key=lambda event: event.number)
        for earlier, later in pairwise(events):
            assert earlier.offset is not None and later.offset is not None
            if later.offset <= earlier.offset:
                text = f"{producer}:{later.number} was acknowledged before {producer}:{earlier.number} in {partition}"
                yield Finding("reordered", text, (earlier, later))


def skipped(history: History) -> Iterator[Finding]:
    """A group that read everything has read every acknowledged value, whoever its members were.

    Of values in transactions, which may not be shown at all, see transactions.py.
    """
    hidden = {value_name(sent.producer, sent.number) for sent in history.of(Sent) if sent.transaction}
    for drained in history.of(Drained):
        group_reads = (read for read in history.of(Read) if read.group == drained.group and read.topic == drained.topic)
        seen = {(read.partition, read.value) for read in group_reads}
        for acked in history.of(Acked):
            value = value_name(acked.producer, acked.number)
            if acked.topic == drained.topic and value not in hidden and (acked.partition, value) not in seen:
                text = f"group {drained.group} never got {value} of {at(acked)}"
                yield Finding("group skipped a value", text, (acked, drained))


def _sightings(history: History) -> Iterator[tuple[str, Sighting]]:
    for read in history.of(Read):
        yield read.value, (read.offset, read)
    for logs in history.replicas.values():
        for log in logs:
            for batch, record in log.committed():
                if record.value is not None:
                    yield record.value, (record.offset, bare(batch))


def _parsed(value: str | None) -> tuple[str, int | None]:
    producer, _, number = (value or "").rpartition(":")
    return producer, int(number) if number.isdecimal() else None
