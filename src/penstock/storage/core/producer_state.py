"""What a log knows of its idempotent producers: enough to tell a repeated batch from a missing one."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from penstock.errors import PenstockError, Problem
from penstock.wire.batch import MAX_SEQUENCE, BatchHeader

# A client has at most five requests in flight, so no older batch can come again.
REMEMBERED_BATCHES = 5
# Each costs about a kilobyte. A client that takes a new id for every batch must not fill the memory before its ids
# expire; to forget the longest unused is what expiry does too.
MOST_PRODUCERS = 65_536
_FORGOTTEN_AT_ONCE = MOST_PRODUCERS // 16
# Those have nothing in the log yet: as many as may begin while a disk is full, and little memory.
MOST_REFUSED = 4096

NO_SEQUENCE = -1


class ProducedBatch(NamedTuple):
    """One batch as its producer numbered it, and where it went."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    timestamp_ms: int


class ProducerEntry(NamedTuple):
    """What is known of one producer. `batches` is empty after a control batch alone."""

    producer_id: int
    epoch: int
    batches: tuple[ProducedBatch, ...]
    last_timestamp_ms: int
    last_used_ms: int

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class _RefusedStart(NamedTuple):
    """A producer that is not known sent this and it could not be appended. It sends it again."""

    epoch: int
    sequence: int
    refused_ms: int

    def is_overtaken_by(self, header: BatchHeader) -> bool:
        # Sequences wrap; what is less than half the way round ahead is later.
        ahead = (header.base_sequence - self.sequence) & MAX_SEQUENCE
        return header.producer_epoch == self.epoch and 0 < ahead <= MAX_SEQUENCE // 2


class ProducerStates:
    """Ask `check` before an append and tell `record` after it, or `refuse` if it failed."""

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        # Longest refused first. To lose it is to judge its producers as after expiry: they may begin anywhere.
        self._refused: dict[int, _RefusedStart] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ProducerEntry]:
        return list(self._entries.values())

    def last_sequence(self, producer_id: int) -> int | None:
        """None: nothing is known of the producer."""
        entry = self._entries.get(producer_id)
        return None if entry is None else entry.last_sequence

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """None: append it. Otherwise the batch of which this is a repetition. Raises PenstockError."""
        entry = self._entries.get(header.producer_id)
        if entry is None or header.base_sequence < 0:
            if self._refused:
                self._check_overtaking(header)
            # Kafka's rule after expiry: a producer that is not known may start anywhere.
            return None
        if header.producer_epoch != entry.epoch:
            _check_epoch(header, entry)
            return None
        if not entry.batches:
            return None
        expected = (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE
        if header.base_sequence == expected:
            return None
        last_sequence = header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last_sequence:
                return batch
        raise PenstockError(
            Problem.OUT_OF_ORDER_SEQUENCE,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
        )

    def record(self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """The batch is in the log. Also on replay, where whatever the log holds is right."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            self._refused.pop(header.producer_id, None)
            if len(self._entries) >= MOST_PRODUCERS:
                self._forget_longest_unused()
        same_epoch = entry is not None and entry.epoch == header.producer_epoch
        batches = entry.batches if entry is not None and same_epoch else ()
        if header.base_sequence >= 0:
            next_offset = base_offset + header.last_offset_delta + 1
            added = ProducedBatch(header.base_sequence, header.last_sequence, base_offset, next_offset, timestamp_ms)
            batches = (*batches[1 - REMEMBERED_BATCHES :], added)
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_id, header.producer_epoch, batches, timestamp_ms, now_ms
        )

    def refuse(self, header: BatchHeader, now_ms: int) -> None:
        """The batch could not be appended, and its producer, if it has one, is not to blame.

        Of a known producer the next sequence is known. Another may start anywhere, so that without this the next batch
        that it has in flight would be taken for its first.
        """
        if header.producer_id < 0 or header.producer_id in self._entries:
            return
        before = self._refused.get(header.producer_id)
        if before is not None and before.is_overtaken_by(header):
            return
        self._refused.pop(header.producer_id, None)
        if len(self._refused) >= MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[header.producer_id] = _RefusedStart(header.producer_epoch, header.base_sequence, now_ms)

    def expire(self, now_ms: int, older_than_ms: int) -> int:
        """Forgets who was last heard of longer ago than that; returns how many."""
        oldest = now_ms - older_than_ms
        expired = [entry.producer_id for entry in self._entries.values() if entry.last_used_ms < oldest]
        for producer_id in expired:
            del self._entries[producer_id]
        self._refused = {
            producer_id: refused for producer_id, refused in self._refused.items() if refused.refused_ms >= oldest
        }
        return len(expired)

    def _check_overtaking(self, header: BatchHeader) -> None:
        refused = self._refused.get(header.producer_id)
        if refused is not None and refused.is_overtaken_by(header):
            raise PenstockError(
                Problem.OUT_OF_ORDER_SEQUENCE,
                f"producer {header.producer_id} sent sequence {header.base_sequence}, but {refused.sequence} could not "
                "be written and must come first",
            )

    def _forget_longest_unused(self) -> None:
        unused = heapq.nsmallest(_FORGOTTEN_AT_ONCE, self._entries.values(), key=lambda entry: entry.last_used_ms)
        for entry in unused:
            del self._entries[entry.producer_id]


def _check_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    if header.producer_epoch < entry.epoch:
        raise PenstockError(
            Problem.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} has epoch {entry.epoch}, {header.producer_epoch} is over",
        )
    if header.base_sequence != 0:
        raise PenstockError(
            Problem.OUT_OF_ORDER_SEQUENCE,
            f"producer {header.producer_id} starts epoch {header.producer_epoch} "
            f"with sequence {header.base_sequence}, not 0",
        )
