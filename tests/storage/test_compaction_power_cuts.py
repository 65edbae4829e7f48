"""Compaction and truncation on a disk that loses power at any operation.

No key loses its newest value, no deleted key comes back, and nothing of what was truncated does.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import NamedTuple

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.disk.crash import CrashingDisk, PowerOff
from tests.scale import examples
from tests.storage.batches import NOW_MS, bytes_at, headers_in
from tests.storage.fire import under_fire

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.deletion import Deletion
from penstock.storage.log import Log
from penstock.units import MIB
from penstock.wire.batch import BatchHeader, read_header
from penstock.wire.records import Record, build_batch, records_of

DIRECTORY = "/data/topics/t/partition-0"
SETTINGS = LogSettings(
    cleanup_policy="compact",
    segment_bytes=450,
    index_interval_bytes=256,
    min_cleanable_dirty_ratio=0.0,
    max_compaction_lag_ms=25_000,
    delete_retention_ms=20_000,
    file_delete_delay_ms=10_000,
)

# Segments begin small so that there are many, and are merged.
MERGING = replace(SETTINGS, segment_bytes=2500)

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
# Mostly large, so that segments fill up; None deletes the key.
values = st.none() | st.integers(50, 300).map(lambda size: b"v" * size)
entries = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
chance = st.integers(0, 2**32 - 1).map(Random)


class Sent(NamedTuple):
    key: bytes
    value: bytes | None
    timestamp_ms: int


class Walk(NamedTuple):
    """All that can be read, and the offsets that are refused."""

    records: list[Record]
    batches: list[BatchHeader]
    damaged: set[int]

    @property
    def offsets(self) -> set[int]:
        return {record.offset for record in self.records}

    def ends_of_cut(self, offset: int) -> range:
        """Where a log may end that is truncated to this offset: no batch is torn, and what is missing may be again."""
        holding = [header.base_offset for header in self.batches if header.base_offset <= offset < header.next_offset]
        return range(holding[0], holding[0] + 1) if holding else range(self.gap_before(offset).start, offset + 1)

    def gap_before(self, offset: int) -> range:
        return range(max((h.next_offset for h in self.batches if h.next_offset <= offset), default=0), offset)


class CompactionUnderFire(RuleBasedStateMachine):
    """`must`: every record below it was synced, and it or a newer one of its key has to be there."""

    @initialize(max_bytes=st.sampled_from([1, 300, MIB]))
    def begin(self, max_bytes: int) -> None:
        self.disk = CrashingDisk()
        # Of one read.
        self.max_bytes = max_bytes
        self.now_ms = NOW_MS
        self.must = 0
        self.sent: dict[int, Sent] = {}
        self.sequence = -1
        self.epoch = 0
        # Refused since a power cut, before which it was not synced.
        self.damaged: set[int] = set()
        # Between the last batch and the end, after truncations.
        self.gaps: list[range] = []
        self.open()

    def open(self) -> None:
        self.compaction: Compaction | None = None
        self.deletions: list[Deletion] = []
        self.log = Log.open(self.disk, DIRECTORY, SETTINGS, now_ms=self.now_ms)

    @rule(batch=entries, compression=st.integers(0, 4), has_producer=st.booleans())
    def append(self, batch: list[tuple[bytes, bytes | None]], compression: int, has_producer: bool) -> None:
        base = self.log.end_offset
        for place, (key, value) in enumerate(batch):
            self.sent[base + place] = Sent(key, value, self.now_ms)
        records = [Record(place, self.now_ms, key, value) for place, (key, value) in enumerate(batch)]
        built = memoryview(
            build_batch(
                records,
                compression=compression,
                producer_id=1 if has_producer else -1,
                producer_epoch=0 if has_producer else -1,
                base_sequence=self.sequence + 1 if has_producer else -1,
            )
        )
        appended = self.log.append(built, read_header(built), leader_epoch=self.epoch, now_ms=self.now_ms)
        assert appended.base_offset == base
        if has_producer:
            self.sequence += len(batch)

    @rule(batches=st.lists(entries, min_size=3, max_size=10))
    def append_and_sync(self, batches: list[list[tuple[bytes, bytes | None]]]) -> None:
        for batch in batches:
            self.append(batch, 0, False)
        self.sync(False)

    @rule(checkpoint=st.booleans())
    def sync(self, checkpoint: bool) -> None:
        ticket = self.log.begin_sync(checkpoint=checkpoint)
        if ticket is not None:
            ticket.run()
            self.log.finish_sync(ticket)
        self.must = self.log.synced_offset

    @rule(by_ms=st.sampled_from([1_000, 12_000, 30_000]))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule()
    def fall_idle(self) -> None:
        """Housekeeping closes the segment, and everything is written down."""
        self.now_ms += SETTINGS.max_compaction_lag_ms
        self.log.roll_if_due(self.now_ms)
        self.sync(True)

    @rule()
    def retain(self) -> None:
        deletion = self.log.apply_retention(self.now_ms, self.must)
        if deletion is not None:
            self.deletions.append(deletion)

    @precondition(lambda self: self.deletions)
    @rule()
    def delete_files(self) -> None:
        self.deletions.pop(0).run()

    @precondition(lambda self: self.compaction is None)
    @rule(key_map_bytes=st.sampled_from([0, MIB]))
    def begin_compaction(self, key_map_bytes: int) -> None:
        self.log.settings = MERGING
        self.compaction = Compaction.begin(
            self.log, bound_offset=self.must, now_ms=self.now_ms, key_map_bytes=key_map_bytes
        )
        self.log.settings = SETTINGS

    @precondition(lambda self: self.compaction is not None)
    @rule(steps=st.integers(1, 20))
    def compact(self, steps: int) -> None:
        compaction = self.compaction
        while compaction is not None and steps:
            compaction.work()
            compaction.settle(self.now_ms)
            steps -= 1
            if compaction.is_done:
                self.compaction = compaction = None
                event("compacted" if self.log.clean_offset else "nothing")
                self.check_compacted()

    @rule()
    def compact_everything(self) -> None:
        self.sync(True)
        if self.compaction is None:
            self.begin_compaction(MIB)
        while self.compaction is not None:
            self.compact(100)
        self.sync(True)

    @precondition(lambda self: self.compaction is not None)
    @rule()
    def compact_on_a_full_disk(self) -> None:
        assert self.compaction is not None
        self.disk.fail_next("write", errno.ENOSPC, path_part=".tmp")
        try:
            self.compact(100)
        except OSError:
            assert self.compaction is not None
            self.compaction.abandon()
            self.compaction = None
        self.disk.forgive()

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        before = self.walk()
        offset = self.offset_at(part)
        if offset == self.log.end_offset:
            return
        self.log.truncate_to(offset)
        assert self.log.end_offset in before.ends_of_cut(offset)
        self.gaps.append(before.gap_before(self.log.end_offset))
        self.follow_truncation(before)
        after = self.walk()
        assert after.records == [record for record in before.records if record.offset < self.log.end_offset]
        assert after.batches == [header for header in before.batches if header.next_offset <= self.log.end_offset]
        assert all(start.start_offset < self.log.end_offset for start in self.log.epochs.starts())
        self.epoch += 1
        self.check_producers()

    def offset_at(self, part: float) -> int:
        return self.log.start_offset + round((self.log.end_offset - self.log.start_offset) * part)

    def follow_truncation(self, before: Walk) -> None:
        """What compaction took out for records that are truncated now is lost, as in Kafka."""
        self.must = self.log.end_offset
        there = before.offsets
        self.sent = {offset: sent for offset, sent in self.sent.items() if offset < self.must and offset in there}
        self.damaged = {offset for offset in before.damaged if offset < self.must}
        self.sequence = max((entry.last_sequence for entry in self.log.producers()), default=-1)

    @rule(
        part=st.floats(0, 1),
        operations=st.integers(0, 15) | st.integers(0, 80),
        killed_for=st.none() | st.integers(0, 40),
        choose=chance,
    )
    def power_cut_within_truncation(self, part: float, operations: int, killed_for: int | None, choose: Random) -> None:
        """It happens as a whole or not at all. Perhaps the process dies first, and is in its next life for a while."""
        before, must = self.walk(), self.must
        offset = self.offset_at(part)
        if offset == self.log.end_offset:
            return
        ends = before.ends_of_cut(offset)
        self.disk.operations_left = operations
        try:
            self.log.truncate_to(offset)
            must = self.log.end_offset + 1
        except PowerOff:
            event("power off within truncation")
        self.disk.operations_left = killed_for
        with suppress(PowerOff):
            if killed_for is not None:
                self.open()
        self.disk.operations_left = None
        self.disk.cut_power(choose)
        self.open()
        end_offset = self.log.end_offset
        self.gaps.append(before.gap_before(end_offset))
        after = self.walk()
        certain = min(must, end_offset) if end_offset in ends else must
        assert end_offset >= certain
        assert {offset for offset in before.offsets if offset < certain} <= after.offsets
        if end_offset in ends:
            self.must, self.damaged = end_offset, after.damaged
            self.sent = {kept: sent for kept, sent in self.sent.items() if kept in after.offsets}
        self.after_reopening()

    @rule(choose=chance)
    def power_cut(self, choose: Random) -> None:
        self.disk.operations_left = None
        self.disk.cut_power(choose)
        self.open()
        self.after_reopening()

    @rule(
        action=st.sampled_from(["compact", "compact_everything", "save", "retain", "retain_at_once", "restart"]),
        operations=st.integers(0, 15) | st.integers(0, 80),
        choose=chance,
    )
    def power_cut_within(self, action: str, operations: int, choose: Random) -> None:
        if self.compaction is None:
            self.begin_compaction(MIB)
        if self.compaction is not None and action in ("save", "retain", "retain_at_once"):
            self.compact(100)
        self.disk.operations_left = operations
        try:
            match action:
                case "compact" if self.compaction is not None:
                    self.compact(20)
                case "compact_everything":
                    self.compact_everything()
                case "save":
                    self.sync(True)
                case "retain" | "retain_at_once":
                    if action == "retain":
                        self.sync(True)
                    self.now_ms += SETTINGS.file_delete_delay_ms
                    self.retain()
                    while self.deletions:
                        self.delete_files()
                case "restart":
                    self.restart()
        except PowerOff:
            event("power off within " + action)
        self.power_cut(choose)

    @rule(is_idle=st.booleans())
    def restart(self, is_idle: bool = False) -> None:
        if is_idle:
            self.fall_idle()
        self.log.close()
        self.open()
        self.after_reopening()

    @rule()
    def kill(self) -> None:
        """The page cache lives on, so nothing is lost."""
        self.must = self.log.end_offset
        self.open()
        self.after_reopening()

    def after_reopening(self) -> None:
        """What was not synced may be lost, in part."""
        assert self.log.end_offset >= self.must
        walk = self.walk()
        assert all(offset >= self.must or offset in self.damaged for offset in walk.damaged)
        self.damaged = walk.damaged
        readable = walk.offsets
        self.sent = {offset: sent for offset, sent in self.sent.items() if offset < self.must or offset in readable}
        self.must = self.log.end_offset
        self.sequence = max((entry.last_sequence for entry in self.log.producers()), default=-1)
        self.epoch = self.log.latest_epoch or 0
        self.check_producers()

    def check_producers(self) -> None:
        """Of no producer is less known than its batches say, nor anything of batches that are not there."""
        for entry in self.log.producers():
            assert all(batch.next_offset <= self.log.end_offset for batch in entry.batches)
        sequences = [header.last_sequence for header in self.walk().batches if header.producer_id >= 0]
        assert self.sequence >= max(sequences, default=-1)

    def walk(self) -> Walk:
        found: list[Record] = []
        batches: list[BatchHeader] = []
        damaged: set[int] = set()
        offset = self.log.start_offset
        while offset < self.log.end_offset:
            try:
                data = bytes_at(self.log, offset, max_bytes=self.max_bytes)
            except PenstockError as error:
                assert error.problem is Problem.CORRUPT_RECORDS
                damaged.add(offset)
                offset += 1
                continue
            if not data and any(gap.start <= offset and gap.stop == self.log.end_offset for gap in self.gaps):
                break
            assert data, f"nothing at offset {offset}, but the log ends at {self.log.end_offset}"
            position = 0
            for header in headers_in(data):
                batches.append(header)
                found += records_of(data[position : position + header.size], limit_bytes=MIB)
                position += header.size
                offset = header.next_offset
        return Walk(found, batches, damaged)

    def served(self) -> list[Record]:
        walk = self.walk()
        assert walk.damaged == self.damaged
        return walk.records

    @invariant()
    def newest_values_are_there_and_deleted_keys_are_not(self) -> None:
        served = {record.offset: record for record in self.served()}
        for offset, record in served.items():
            assert self.sent.get(offset) == (record.key, record.value, record.timestamp_ms)
        for key in (b"a", b"b", b"c", b"d"):
            sent = [offset for offset, entry in self.sent.items() if entry.key == key and offset < self.must]
            if not sent:
                continue
            newest = self.sent[max(sent)]
            there = [offset for offset, record in served.items() if record.key == key]
            if newest.value is not None or self.now_ms - newest.timestamp_ms < SETTINGS.delete_retention_ms:
                assert max(sent) in there
            elif max(sent) not in there:
                assert all(offset > max(sent) for offset in there), f"{key!r} was deleted and is back"

    def check_compacted(self) -> None:
        clean = [record.key for record in self.served() if record.offset < self.log.clean_offset]
        assert len(clean) == len(set(clean))


CompactionUnderFire.TestCase.settings = under_fire(max_examples=examples(60), steps=30)
TestCompactionUnderFire = CompactionUnderFire.TestCase
