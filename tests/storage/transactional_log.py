"""A log with transactions of several producers, and the model that it is held against."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.disk.crash import CrashingDisk
from tests.storage.batches import NOW_MS, contents
from tests.storage.committed_reader import committed_records, marker_in, split
from tests.storage.transaction_model import (
    Known,
    Written,
    committed,
    data_batch,
    end,
    last_stable_offset,
    producers_after,
    transactions_in,
)

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.holes import first_hole
from penstock.storage.log import Log
from penstock.units import DAY_MS
from penstock.wire.batch import read_header
from penstock.wire.control import Marker
from penstock.wire.records import Record

DIRECTORY = "/data/topics/t/partition-0"
SETTINGS = LogSettings(
    segment_bytes=900,
    index_interval_bytes=256,
    retention_ms=-1,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=DAY_MS,
    file_delete_delay_ms=0,
)


class TransactionalLog:
    def start(self, policy: str) -> None:
        self.settings = replace(SETTINGS, cleanup_policy=policy)
        self.disk = CrashingDisk()
        self.now_ms = NOW_MS
        self.written: list[Written] = []
        self.must = 0
        # Nobody has seen anything behind it.
        self.high_watermark = 0
        self.numbers = 0
        self.was_compacted = False
        # What was committed when the log was compacted.
        self.never_cut_below = 0
        # What a truncated log knew of producers by records that were deleted may be lost.
        self.is_forgetful = False
        self.open()

    def open(self) -> None:
        self.log = Log.open(self.disk, DIRECTORY, self.settings, now_ms=self.now_ms)
        if (hole_offset := first_hole(self.log)) is not None:
            if self.numbers % 2:
                # A checkpoint speaks of what is behind it too, until it is cut off.
                self.log.checkpoint()
                self.log = Log.open(self.disk, DIRECTORY, self.settings, now_ms=self.now_ms)
                assert first_hole(self.log) == hole_offset
            self.log.truncate_to(hole_offset)

    @property
    def known(self) -> dict[int, Known]:
        return self.told if self.is_forgetful else producers_after(self.written)

    @property
    def told(self) -> dict[int, Known]:
        return {
            entry.producer_id: Known(entry.epoch, entry.last_sequence, entry.transaction_start, entry.coordinator_epoch)
            for entry in self.log.producers()
        }

    def append(self, producer_id: int, count: int, size: int, is_transactional: bool) -> None:
        known = self.known.get(producer_id, Known(0, -1, -1, -1))
        sequence = known.sequence + 1
        values = []
        for _ in range(count):
            self.numbers += 1
            values.append((b"k%d" % (self.numbers % 5), b"%d " % self.numbers + b"x" * size))
        batch = data_batch(values, producer_id, known.epoch, sequence, is_transactional=is_transactional)
        base_offset = self.log.end_offset
        if known.transaction_start >= 0 and not is_transactional:
            with pytest.raises(PenstockError) as refusal:
                self.log.append(batch, read_header(batch), leader_epoch=0, now_ms=self.now_ms)
            assert refusal.value.problem is Problem.INVALID_TXN_STATE
            return
        records = tuple(Record(base_offset + place, NOW_MS, *value) for place, value in enumerate(values))
        written = Written(
            base_offset,
            base_offset + count,
            producer_id,
            known.epoch,
            sequence + count - 1,
            is_transactional,
            None,
            records,
        )
        self.written.append(written)
        self.log.append(batch, read_header(batch), leader_epoch=0, now_ms=self.now_ms)

    def end(self, producer_id: int, is_commit: bool, version: int) -> None:
        known = self.known.get(producer_id, Known(0, -1, -1, -1))
        epoch, marker = known.epoch + version - 1, Marker(is_commit, max(0, known.coordinator_epoch))
        offset = self.log.end_offset
        self.written.append(Written(offset, offset + 1, producer_id, epoch, -1, True, marker, ()))
        assert end(self.log, producer_id, epoch, marker, version=version, now_ms=self.now_ms) == offset

    def reopened(self) -> None:
        """What is there now counts."""
        assert self.log.end_offset >= self.must
        self.written = [batch for batch in self.written if batch.next_offset <= self.log.end_offset]
        self.must = self.log.synced_offset
        self.is_forgetful = self.is_forgetful or self.log.start_offset > 0
        # Which markers were not committed yet is not remembered.
        self.high_watermark = self.log.end_offset
        self.says_what_the_model_says()
        self.reads_what_is_committed(10_000)

    @property
    def stable_offset(self) -> int:
        transactions = self.log.producer_states.transactions
        return max(self.log.start_offset, transactions.last_stable_offset(self.high_watermark))

    @property
    def first_base(self) -> int:
        return self.log.segments[0].base_offset if self.log.segments else self.log.end_offset

    def says_what_the_model_says(self) -> None:
        expected = last_stable_offset(self.written, self.high_watermark)
        if self.is_forgetful:
            # Nobody need wait for a transaction of which nothing is left.
            left = [batch for batch in self.written if batch.base_offset >= self.first_base]
            highest = last_stable_offset(left, self.high_watermark)
            assert max(self.log.start_offset, expected) <= self.stable_offset <= max(self.log.start_offset, highest)
        else:
            assert self.stable_offset == max(self.log.start_offset, expected)
        known = self.told
        if self.was_compacted:
            # A marker that is not needed any more takes it along.
            known = {
                producer_id: each._replace(coordinator_epoch=self.known[producer_id].coordinator_epoch)
                for producer_id, each in known.items()
            }
        assert known == self.known
        self.remembers_what_was_aborted()

    def remembers_what_was_aborted(self) -> None:
        first_base = self.first_base
        expected = {each.marker_offset: each for each in transactions_in(self.written) if not each.is_commit}
        rows = list(self.log.aborted.rows)
        if not self.was_compacted:
            assert [row.last_offset for row in rows] == [offset for offset in sorted(expected) if offset >= first_base]
        for row in rows:
            each = expected[row.last_offset]
            assert row.producer_id == each.producer_id
            # Where the file was read from the log again, what retention had taken by then was not known any more.
            left = [offset for offset in each.offsets if offset >= first_base] or [row.last_offset]
            firsts = {each.first_offset}
            if self.was_compacted:
                firsts |= {*left, row.last_offset}
            elif each.first_offset < first_base or self.is_forgetful:
                firsts |= {left[0], *(offset for offset in each.offsets if offset < first_base)}
            # Or compaction took the end of the transaction before, and the snapshot has its beginning.
            assert row.first_offset in firsts or (self.was_compacted and row.first_offset < each.first_offset)
            if not self.log.start_offset and not self.was_compacted:
                assert row.last_stable_offset == each.stable_offset

    def reads_what_is_committed(self, max_bytes: int, start: int | None = None) -> None:
        start = self.log.start_offset if start is None else start
        found = committed_records(self.log, self.stable_offset, start=start, max_bytes=max_bytes)
        expected = committed(self.written, start, self.stable_offset)
        if not self.was_compacted:
            assert found == expected
            return
        assert [record for record in expected if record in found] == found
        assert {record.key: record for record in found} == {record.key: record for record in expected}
        markers = {
            batch.header.base_offset
            for data in contents(self.log).values()
            for batch in split(data)
            if (marker := marker_in(batch)) is not None and not marker.is_commit
        }
        assert markers == {row.last_offset for row in self.log.aborted.rows}
