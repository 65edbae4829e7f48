"""What may and what must be in a log that lives on a bad disk."""

from __future__ import annotations

from typing import NamedTuple

from tests.disk.crash import CrashingDisk
from tests.storage.batches import NOW_MS, batch_of, headers_in

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.deletion import Deletion
from penstock.storage.log import Log, SyncTicket
from penstock.wire.batch import read_header, stamp

DIRECTORY = "/data/topics/t/partition-0"


class Sent(NamedTuple):
    base_offset: int
    next_offset: int
    content: bytes
    producer_id: int
    sequence: int


class LogModel:
    """`must`: every offset below it is on disk for good, unless deleted. What is in `sent` and beyond may be lost by a

    power cut; nothing that is not in `sent` may ever be served.
    """

    def start(self, settings: LogSettings, disk: CrashingDisk | None = None) -> None:
        self.settings = settings
        self.disk = disk or CrashingDisk()
        self.now_ms = NOW_MS
        self.numbers = 0
        self.must = 0
        self.certain_start = 0
        self.possible_start = 0
        self.sent: dict[int, Sent] = {}
        self.sequences: dict[int, int] = {}
        self.ticket: SyncTicket | None = None
        self.ticket_ran = False
        self.deletions: list[tuple[Deletion, int]] = []
        self.epoch = 0
        self.failed = False
        # It is compacted or was, here or where it is copied from.
        self.may_have_gaps = "compact" in settings.cleanup_policy
        self.open()

    def open(self) -> None:
        self.ticket = None
        self.ticket_ran = False
        self.deletions = []
        self.failed = False
        self.log = Log.open(self.disk, DIRECTORY, self.settings, now_ms=self.now_ms)

    def append(self, records: int, size: int, producer_id: int) -> None:
        self.numbers += 1
        values = [b"%d" % self.numbers, *[b"x" * size] * (records - 1)]
        sequence = self.sequences.get(producer_id, -1) + 1 if producer_id >= 0 else -1
        batch = batch_of(
            *values,
            timestamp_ms=self.now_ms,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
        expected = self.log.end_offset
        last_sequence = sequence + records - 1 if producer_id >= 0 else -1
        stamped = bytearray(batch)
        stamp(stamped, expected, self.epoch)
        # From now on it may be found, even if the power fails before anybody is told.
        self.sent[expected] = Sent(expected, expected + records, bytes(stamped), producer_id, last_sequence)
        try:
            appended = self.log.append(batch, read_header(batch), leader_epoch=self.epoch, now_ms=self.now_ms)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            assert self.log.end_offset == expected
            del self.sent[expected]
            self.failed = self.log.failure is not None
            return
        assert (appended.base_offset, appended.duplicate) == (expected, False)
        assert appended.next_offset == expected + records
        if producer_id >= 0:
            self.sequences[producer_id] = last_sequence

    def served_from(self, offset: int) -> list[Sent]:
        """What a read at this offset answers with, each batch found in the model."""
        piece = self.log.read(offset, 1000, upto=self.log.end_offset, at_least_one=True)
        data = piece.cached()
        if data is None:
            data = piece.load()
        assert len(data) <= max(piece.length, 1)
        served = []
        position = 0
        for header in headers_in(bytes(data)):
            content = bytes(data[position : position + header.size])
            known = self.sent.get(header.base_offset)
            assert known is not None, f"offset {header.base_offset} was never written or was taken back"
            assert known.content == content
            served.append(known)
            position += header.size
        return served

    def check_everything(self) -> None:
        """Walks the whole log. Only what was not synced may be damaged."""
        assert self.must <= self.log.end_offset
        assert self.certain_start <= self.log.start_offset
        # A log of which nothing is left that can be read begins where it ends.
        skipped = range(self.possible_start, min(self.log.start_offset, self.must))
        assert not any(sent.base_offset in skipped for sent in self.sent.values())
        offset = self.log.start_offset
        seen: set[int] = set()
        refused: set[int] = set()
        while offset < self.log.end_offset:
            try:
                served = self.served_from(offset)
            except PenstockError as error:
                assert error.problem is Problem.CORRUPT_RECORDS
                lost = [sent for sent in self.sent.values() if sent.base_offset <= offset < sent.next_offset]
                assert not lost or offset >= self.must, f"{offset} was synced (up to {self.must}), but: {error}"
                refused.add(offset)
                offset += 1
                continue
            if not served:
                # It may end behind its last batch.
                assert self.may_have_gaps
                assert not any(offset <= base < self.log.end_offset for base in self.sent), f"nothing at {offset}"
                break
            seen.update(sent.base_offset for sent in served)
            offset = served[-1].next_offset
        for sent in self.sent.values():
            if self.log.start_offset <= sent.base_offset and sent.next_offset <= self.must:
                assert sent.base_offset in seen
            if self.log.start_offset <= sent.base_offset < self.log.end_offset:
                assert sent.base_offset in seen | refused, f"{sent.base_offset} is left out as if it had never been"
        for base in seen:
            first = max(base, self.log.start_offset)
            assert self.log.epochs.epoch_of(first) == read_header(self.sent[base].content).leader_epoch
        self.check_producers(seen)

    def check_producers(self, seen: set[int]) -> None:
        """What the log says of a producer is what its batches say."""
        entries = {entry.producer_id: entry for entry in self.log.producers()}
        for producer_id in {sent.producer_id for sent in self.sent.values() if sent.producer_id >= 0}:
            there = [self.sent[base] for base in sorted(seen) if self.sent[base].producer_id == producer_id]
            if not there:
                continue
            entry = entries[producer_id]
            assert entry.last_sequence == there[-1].sequence
            known = [(batch.last_sequence, batch.base_offset) for batch in entry.batches]
            expected = [(sent.sequence, sent.base_offset) for sent in there][-5:]
            assert known[-len(expected) :] == expected

    def after_reopening(self) -> None:
        """What was lost is lost: the model follows the log, which knows what of it is synced."""
        self.check_everything()
        self.sent = {
            base: sent
            for base, sent in self.sent.items()
            if sent.next_offset <= self.log.end_offset and (base < self.log.start_offset or self.is_readable(base))
        }
        self.must = self.log.synced_offset
        if self.settings.flush_policy == "acked":
            assert self.must == self.log.end_offset, "what a log shows after a start is on disk"
        self.possible_start = self.log.start_offset
        self.sequences = {entry.producer_id: entry.last_sequence for entry in self.log.producers()}

    def is_readable(self, offset: int) -> bool:
        try:
            return bool(self.served_from(offset))
        except PenstockError:
            return False
