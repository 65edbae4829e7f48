"""What a log knows of its idempotent producers: enough to tell a repeated batch from a missing one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.errors import PenstockError, Problem
from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.core.transactions import Transactions
from penstock.wire.batch import CONTROL, MAX_SEQUENCE, TRANSACTIONAL, BatchHeader
from penstock.wire.control import Marker, read_marker
from penstock.wire.tuples import new_tuple

# A client has at most five requests in flight, so no older batch can come again.
REMEMBERED_BATCHES = 5
# Each costs about a kilobyte. A client that takes a new id for every batch must not fill the memory before its ids
# expire; to forget the longest unused is what expiry does too.
MOST_PRODUCERS = 65_536
_FORGOTTEN_AT_ONCE = MOST_PRODUCERS // 16
# Whoever has one is not forgotten before it ends, so there must be others left to forget.
MOST_OPEN_TRANSACTIONS = MOST_PRODUCERS // 2
# Those have nothing in the log yet: as many as may begin while a disk is full, and little memory.
MOST_REFUSED = 4096

NO_SEQUENCE = -1
NO_TRANSACTION = -1
NO_COORDINATOR_EPOCH = -1
# Of KIP-890: a transaction ends with the epoch after its own.
BUMPING_VERSION = 2


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
    # Where its open transaction begins.
    transaction_start: int = NO_TRANSACTION
    # Of the last marker.
    coordinator_epoch: int = NO_COORDINATOR_EPOCH

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
    """Ask `check` before an append and tell `record` after it, or `refuse` if it failed.

    Of a marker that ends a transaction: `check_marker` before, `end` after.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        begun = (entry for entry in self._entries.values() if entry.transaction_start >= 0)
        self.transactions = Transactions((entry.producer_id, entry.transaction_start) for entry in begun)
        # Longest refused first. To lose it is to judge its producers as after expiry: they may begin anywhere.
        self._refused: dict[int, _RefusedStart] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ProducerEntry]:
        return list(self._entries.values())

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """None: append it. Otherwise the batch of which this is a repetition. Raises PenstockError."""
        entry = self._entries.get(header.producer_id)
        if entry is None or header.base_sequence < 0:
            if self._refused and header.base_sequence >= 0:
                self._check_overtaking(header)
            if header.attributes & TRANSACTIONAL:
                self._check_transaction(header, NO_TRANSACTION)
            # Kafka's rule after expiry: a producer that is not known may start anywhere.
            return None
        if header.producer_epoch != entry.epoch:
            _check_epoch(header, entry)
        else:
            batches = entry.batches
            # Behind a marker that began the epoch it is 0.
            expected = (batches[-1].last_sequence + 1) & MAX_SEQUENCE if batches else 0
            if header.base_sequence != expected:
                return _repeated(header, entry, expected)
        if header.attributes & TRANSACTIONAL or entry.transaction_start >= 0:
            self._check_transaction(header, entry.transaction_start)
        return None

    def record(self, header: BatchHeader, base_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """The batch is in the log. Also on replay, where whatever the log holds is right."""
        entry = self._entries.get(header.producer_id)
        batches: tuple[ProducedBatch, ...] = ()
        transaction_start, coordinator_epoch = NO_TRANSACTION, NO_COORDINATOR_EPOCH
        if entry is None:
            self._make_room(header.producer_id)
        else:
            transaction_start, coordinator_epoch = entry.transaction_start, entry.coordinator_epoch
            if entry.epoch == header.producer_epoch:
                batches = entry.batches
        if header.base_sequence >= 0:
            next_offset = base_offset + header.last_offset_delta + 1
            added = (header.base_sequence, header.last_sequence, base_offset, next_offset, timestamp_ms)
            batches = (*batches[1 - REMEMBERED_BATCHES :], new_tuple(ProducedBatch, added))
        if header.attributes & TRANSACTIONAL and transaction_start < 0:
            transaction_start = base_offset
            self.transactions.begin(header.producer_id, base_offset)
        updated = (
            header.producer_id,
            header.producer_epoch,
            batches,
            timestamp_ms,
            now_ms,
            transaction_start,
            coordinator_epoch,
        )
        self._entries[header.producer_id] = new_tuple(ProducerEntry, updated)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> None:
        """Raises PenstockError unless it may be appended.

        One that was appended before may be again, as in Kafka: then it ends nothing. `version`: of the transaction; one
        of version 2 does not have the epoch of the marker that ends it.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        is_late = version >= BUMPING_VERSION and epoch == entry.epoch and entry.transaction_start >= 0
        if epoch < entry.epoch or is_late:
            raise PenstockError(
                Problem.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {entry.epoch}: a marker with epoch {epoch} ended an earlier "
                "transaction",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise PenstockError(
                Problem.TRANSACTION_COORDINATOR_FENCED,
                f"producer {producer_id} has a coordinator of epoch {entry.coordinator_epoch}, {coordinator_epoch} is "
                "over",
            )

    def end(
        self, header: BatchHeader, marker: Marker | None, base_offset: int, timestamp_ms: int, now_ms: int
    ) -> AbortedTransaction | None:
        """A control batch is in the log; what to remember if it aborts. None as a marker: it ends no transaction."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = self._entries.get(producer_id)
        if entry is None:
            self._make_room(producer_id)
            entry = ProducerEntry(producer_id, epoch, (), timestamp_ms, now_ms)
        ended = entry._replace(
            epoch=epoch,
            batches=entry.batches if entry.epoch == epoch else (),
            last_timestamp_ms=timestamp_ms,
            last_used_ms=now_ms,
        )
        if marker is None:
            self._entries[producer_id] = ended
            return None
        self._entries[producer_id] = ended._replace(
            transaction_start=NO_TRANSACTION, coordinator_epoch=marker.coordinator_epoch
        )
        return self.transactions.end(producer_id, base_offset, is_commit=marker.is_commit)

    def take_up(
        self, header: BatchHeader, read: Callable[[], bytes | memoryview], now_ms: int
    ) -> AbortedTransaction | None:
        """A batch of a producer as it is in the log; `read`: the whole of it, which matters only of a control batch."""
        if header.attributes & CONTROL:
            return self.end(header, read_marker(read()), header.base_offset, header.max_timestamp, now_ms)
        self.record(header, header.base_offset, header.max_timestamp, now_ms)
        return None

    def move_transaction(self, producer_id: int, transaction_start: int) -> None:
        """Of one that seems to be open: it began there, or has ended."""
        self._entries[producer_id] = self._entries[producer_id]._replace(transaction_start=transaction_start)
        self.transactions.move(producer_id, transaction_start if transaction_start >= 0 else None)

    def find(self, producer_id: int) -> ProducerEntry | None:
        """Another object after everything that happens to the producer in this log."""
        return self._entries.get(producer_id)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_start >= 0 and entry.epoch == epoch

    def refuse(self, header: BatchHeader, now_ms: int) -> None:
        """The batch could not be appended, and its producer, if it has one, is not to blame.

        Of a known producer the next sequence is known. Another may start anywhere, so that without this the next batch
        that it has in flight would be taken for its first.
        """
        if header.producer_id < 0 or header.base_sequence < 0 or header.producer_id in self._entries:
            return
        before = self._refused.get(header.producer_id)
        if before is not None and before.is_overtaken_by(header):
            return
        self._refused.pop(header.producer_id, None)
        if len(self._refused) >= MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[header.producer_id] = _RefusedStart(header.producer_epoch, header.base_sequence, now_ms)

    def expire(self, now_ms: int, older_than_ms: int) -> int:
        """Forgets who was last heard of longer ago than that and has no transaction open; returns how many."""
        oldest = now_ms - older_than_ms
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.last_used_ms < oldest and entry.transaction_start < 0
        ]
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

    def _check_transaction(self, header: BatchHeader, transaction_start: int) -> None:
        if transaction_start >= 0:
            if not header.is_transactional:
                raise PenstockError(
                    Problem.INVALID_TXN_STATE,
                    f"producer {header.producer_id} has a transaction open since offset {transaction_start}, and this "
                    "batch is not in it",
                )
        elif len(self.transactions.open) >= MOST_OPEN_TRANSACTIONS and not header.is_control:
            text = f"{MOST_OPEN_TRANSACTIONS} transactions are open in this partition: one of them has to end first"
            raise PenstockError(Problem.BUSY, text)

    def _make_room(self, producer_id: int) -> None:
        """For one that was not known: the longest unused are forgotten when there are too many."""
        self._refused.pop(producer_id, None)
        if len(self._entries) < MOST_PRODUCERS:
            return
        without = (entry for entry in self._entries.values() if entry.transaction_start < 0)
        for entry in heapq.nsmallest(_FORGOTTEN_AT_ONCE, without, key=lambda entry: entry.last_used_ms):
            del self._entries[entry.producer_id]


def _repeated(header: BatchHeader, entry: ProducerEntry, expected: int) -> ProducedBatch:
    last_sequence = header.last_sequence
    for batch in entry.batches:
        if batch.first_sequence == header.base_sequence and batch.last_sequence == last_sequence:
            return batch
    raise PenstockError(
        Problem.OUT_OF_ORDER_SEQUENCE,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
    )


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
