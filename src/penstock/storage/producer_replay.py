"""What is known of producers at some place of a log, from the newest snapshot before it and the batches since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from penstock.disk.interface import Disk
from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.core.checkpoint import ProducerSnapshot, SegmentRow
from penstock.storage.core.log_files import SNAPSHOT_SUFFIX
from penstock.storage.core.producer_state import NO_TRANSACTION, ProducerStates
from penstock.storage.sealed import read_sealed
from penstock.storage.segment import Segment
from penstock.storage.transaction_index import SavedRows, TransactionIndexes, load_rows
from penstock.storage.unasked import to_scan


class Replayed(NamedTuple):
    """`aborted`: by markers since the snapshot. `ended_later`: producers with markers from `end_offset` on."""

    producers: ProducerStates
    aborted: list[AbortedTransaction]
    ended_later: set[int]


def producers_before(disk: Disk, segment: Segment) -> ProducerStates:
    """What was known when the segment began, if what came before it since the checkpoint is gone. Blocking.

    Nobody waits for a snapshot to be on disk, so a power cut may take it. Then nothing is known: who may start anywhere
    is better off than one of whom it is believed that it did not get as far as it did.

    No transaction counts as open until there is a batch of it. Nothing else of it is left, and one of which nobody
    knows that it has ended, because its marker is gone too, would hold up readers for ever.
    """
    snapshot = read_sealed(disk, segment.path + SNAPSHOT_SUFFIX, ProducerSnapshot)
    is_of_it = snapshot is not None and snapshot.offset == segment.base_offset
    entries = snapshot.producers if snapshot is not None and is_of_it else ()
    return ProducerStates(entry._replace(transaction_start=NO_TRANSACTION) for entry in entries)


def replay_producers(
    disk: Disk, segments: Sequence[Segment], end_offset: int, last_used_ms: Mapping[int, int] | None = None
) -> Replayed:
    """What was known where `end_offset` is, in one of these segments. Blocking.

    Where compaction took a marker, the transaction seems to be open still.
    """
    used_ms = last_used_ms or {}
    later = [segment for segment in reversed(segments) if segment.base_offset > end_offset]
    states = ProducerStates()
    for segment in reversed(segments[: len(segments) - len(later)]):
        later.append(segment)
        snapshot = read_sealed(disk, segment.path + SNAPSHOT_SUFFIX, ProducerSnapshot)
        if snapshot is not None and snapshot.offset == segment.base_offset:
            states = ProducerStates(snapshot.producers)
            break
    replayed = Replayed(states, [], set())
    for segment in reversed(later):
        for position, header in segment.batches(0):
            if header.producer_id < 0:
                continue
            if header.next_offset > end_offset:
                if header.is_control:
                    replayed.ended_later.add(header.producer_id)
                continue
            read = partial(to_scan(segment).read, position, header.size)
            row = states.take_up(header, read, used_ms.get(header.producer_id, header.max_timestamp))
            if row is not None:
                replayed.aborted.append(row)
    return replayed


def recover_indexes(
    disk: Disk, segments: Sequence[Segment], rows: Mapping[int, SegmentRow], found: Sequence[AbortedTransaction]
) -> tuple[TransactionIndexes, int]:
    """At a start: what the checkpoint's segments (`rows`) have in their files, and `found` behind the checkpoint.

    Also how many files could not be trusted: what should be in them was read from the log again. Blocking.
    """
    aborted: list[AbortedTransaction] = []
    saved: dict[str, SavedRows] = {}
    rebuilt = 0
    for place, segment in enumerate(segments):
        row = rows.get(segment.base_offset)
        if row is None or not row.aborted:
            continue
        loaded = load_rows(disk, segment, row.aborted, row.next_offset)
        if loaded is None:
            replayed = replay_producers(disk, segments[: place + 1], row.next_offset)
            aborted += [each for each in replayed.aborted if each.last_offset >= segment.base_offset]
            rebuilt += 1
        else:
            aborted += loaded.rows
            if loaded.saved is not None:
                saved[segment.path] = loaded.saved
    return TransactionIndexes([*aborted, *found], saved), rebuilt
