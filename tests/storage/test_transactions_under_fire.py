"""Transactions of several producers in a log that is cut, killed, compacted and copied, against a model."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.disk.crash import PowerOff
from tests.scale import examples
from tests.storage.committed_reader import committed_records
from tests.storage.fire import under_fire
from tests.storage.transaction_model import Written, end, last_stable_offset
from tests.storage.transactional_log import DIRECTORY, TransactionalLog

from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.log import Log
from penstock.storage.replica_append import append_replicated
from penstock.storage.restart import restart_at
from penstock.units import DAY_MS
from penstock.wire.control import Marker
from penstock.wire.received_batches import received_batches

COPY = "/data/topics/t/partition-1"
PRODUCERS = st.integers(1, 4)
TURNS = st.lists(
    st.tuples(PRODUCERS, st.integers(1, 3), st.sampled_from([0, 0, 300]), st.booleans()), min_size=1, max_size=6
)


class TransactionsUnderFire(TransactionalLog, RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(["delete", "compact"]))
    def begin(self, policy: str) -> None:
        self.start(policy)

    # What a leader does

    @rule(turns=TURNS)
    def write(self, turns: list[tuple[int, int, int, bool]]) -> None:
        for producer_id, count, size, is_transactional in turns:
            self.append(producer_id, count, size, is_transactional)

    @rule(ends=st.lists(st.tuples(PRODUCERS, st.booleans(), st.sampled_from([1, 2])), min_size=1, max_size=3))
    def end_some(self, ends: list[tuple[int, bool, int]]) -> None:
        """Also those that have nothing here, or that have ended before."""
        for producer_id, is_commit, version in ends:
            self.end(producer_id, is_commit, version)

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 3), kind=st.sampled_from(["epoch", "coordinator", "version"]))
    def late_marker(self, which: int, kind: str) -> None:
        producer_id, known = sorted(self.known.items())[which % len(self.known)]
        epoch, coordinator_epoch, version, expected = known.epoch, known.coordinator_epoch, 1, None
        match kind:
            case "epoch":
                epoch, expected = epoch - 1, Problem.INVALID_PRODUCER_EPOCH
            case "coordinator" if coordinator_epoch >= 0:
                coordinator_epoch, expected = coordinator_epoch - 1, Problem.TRANSACTION_COORDINATOR_FENCED
            case "version" if known.transaction_start >= 0:
                version, expected = 2, Problem.INVALID_PRODUCER_EPOCH
        if expected is not None:
            with pytest.raises(PenstockError) as refusal:
                end(self.log, producer_id, epoch, Marker(True, coordinator_epoch), version=version)
            assert refusal.value.problem is expected

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 3))
    def new_coordinator(self, which: int) -> None:
        producer_id, known = sorted(self.known.items())[which % len(self.known)]
        offset, marker = self.log.end_offset, Marker(False, known.coordinator_epoch + 1)
        self.written.append(Written(offset, offset + 1, producer_id, known.epoch, -1, True, marker, ()))
        end(self.log, producer_id, known.epoch, marker, now_ms=self.now_ms)

    @rule(checkpoint=st.booleans())
    def sync(self, checkpoint: bool) -> None:
        ticket = self.log.begin_sync(checkpoint=checkpoint)
        if ticket is not None:
            ticket.run()
            self.log.finish_sync(ticket)
        self.must = self.log.synced_offset

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        """Whole batches, as followers have them."""
        upto = self.high_watermark + round((self.log.end_offset - self.high_watermark) * part)
        ends = (batch.next_offset for batch in self.written if batch.next_offset <= upto)
        self.high_watermark = max(self.high_watermark, *ends, 0)

    @rule(days=st.sampled_from([0, 2]))
    def compact(self, days: int) -> None:
        self.now_ms += days * DAY_MS
        self.sync(False)
        compaction = Compaction.begin(self.log, bound_offset=self.stable_offset, now_ms=self.now_ms)
        if compaction is not None:
            self.was_compacted = True
            self.never_cut_below = self.high_watermark
            while not compaction.is_done:
                compaction.work()
                compaction.settle(self.now_ms)
            self.sync(True)
        if (deletion := self.log.apply_retention(self.now_ms, self.high_watermark)) is not None:
            deletion.run()

    @precondition(lambda self: "compact" in self.settings.cleanup_policy)
    @rule(
        turns=st.lists(st.tuples(TURNS, st.booleans(), st.sampled_from([0, 2])), min_size=1, max_size=4),
        expire=st.booleans(),
    )
    def compact_often(self, turns: list[tuple[list[tuple[int, int, int, bool]], bool, int]], expire: bool) -> None:
        """When all transactions have ended, and perhaps their producers are not heard of any more."""
        for writes, is_commit, days in turns:
            self.write(writes)
            for producer_id, known in self.known.items():
                if known.transaction_start >= 0:
                    self.end(producer_id, is_commit, 1)
            if self.log.segments and self.log.segments[-1].size:
                self.log.roll(self.now_ms)
            self.append(1, 1, 0, False)
            self.commit(1.0)
            self.compact(days)
            if expire:
                self.log.expire_producers(self.now_ms + DAY_MS, 1)
                self.is_forgetful = True
            self.reads_what_is_committed(1000)

    @rule(first=PRODUCERS, second=PRODUCERS, is_commit=st.booleans())
    def end_differently(self, first: int, second: int, is_commit: bool) -> None:
        """Another marker comes to lie where one was taken back."""
        self.append(first, 1, 0, True)
        self.append(second, 1, 0, True)
        self.sync(True)
        self.end(first, False, 1)
        self.sync(True)
        self.must = self.log.end_offset - 1
        self.log.truncate_to(self.must)
        self.reopened()
        self.end(second, is_commit, 1)
        self.sync(True)
        self.kill()

    @precondition(lambda self: "delete" in self.settings.cleanup_policy)
    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        """And with them the segments that lie below. What only they tell of producers is in a checkpoint for good."""
        self.sync(True)
        self.disk.sync_directory(DIRECTORY)
        self.commit(1.0)
        self.log.delete_records(round(self.high_watermark * part))
        if (deletion := self.log.apply_retention(self.now_ms, self.high_watermark)) is not None:
            deletion.run()

    # What happens to it

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        lowest = max(self.log.start_offset, self.never_cut_below)
        self.must = min(self.must, lowest)
        self.log.truncate_to(lowest + round((self.log.end_offset - lowest) * part))
        self.reopened()

    @rule()
    def kill(self) -> None:
        self.must = self.log.end_offset
        self.open()
        self.reopened()

    @rule(seed=st.integers(0, 2**32))
    def power_cut(self, seed: int) -> None:
        self.disk.operations_left = None
        self.disk.cut_power(Random(seed))
        self.open()
        self.reopened()

    @rule(
        action=st.sampled_from(["append", "checkpoint", "truncate", "compact", "delete"]),
        part=st.floats(0, 1),
        operations=st.integers(0, 25),
        seed=st.integers(0, 2**32),
    )
    def power_cut_within(self, action: str, part: float, operations: int, seed: int) -> None:
        self.disk.operations_left = operations
        try:
            match action:
                case "append":
                    self.append(1, 2, 300, True)
                    self.end(1, False, 2)
                case "checkpoint":
                    self.sync(True)
                case "truncate":
                    self.truncate(part)
                case "compact":
                    self.compact(2)
                case "delete" if "delete" in self.settings.cleanup_policy:
                    self.delete_records(part)
        except PowerOff:
            self.power_cut(seed)
        self.disk.operations_left = None

    @precondition(lambda self: self.log.aborted.rows.ends_from(self.log.start_offset))
    @rule(which=st.integers(0, 20), kind=st.sampled_from(["gone", "empty", "garbage", "cut"]), part=st.floats(0, 1))
    def damaged_index(self, which: int, kind: str, part: float) -> None:
        """Found at the start, and made again."""
        self.log.checkpoint()
        assert self.log.close() is None
        before = list(self.log.aborted.rows)
        left = [segment for segment in self.log.segments if segment.next_offset > self.log.start_offset]
        segments = [segment for segment in left if self.log.aborted.count_in(segment)]
        path = segments[which % len(segments)].path + ".txnindex"
        size = self.disk.open(path).size()
        match kind:
            case "gone":
                self.disk.remove(path)
            case "empty":
                self.disk.replace(path, b"")
            case "garbage":
                at = round((size - 1) * part)
                self.disk.damage(path, at, bytes([self.disk.open(path).read(at, 1)[0] ^ 0x99]))
            case "cut":
                self.disk.open(path).truncate(round((size - 1) * part))
        self.must = self.log.end_offset
        self.open()
        assert self.log.recovery.transaction_indexes_rebuilt == 1
        assert "aborted transactions of 1 segments" in str(self.log.recovery)
        if not self.log.start_offset and not self.was_compacted:
            assert list(self.log.aborted.rows) == before
        self.reopened()
        self.log.close()
        self.open()
        assert not self.log.recovery.transaction_indexes_rebuilt

    @rule(max_bytes=st.sampled_from([1, 500, 2000]))
    def copy(self, max_bytes: int) -> None:
        """A follower comes to the same."""
        with suppress(FileNotFoundError):
            self.disk.remove_directory(COPY)
        follower = Log.open(self.disk, COPY, self.settings, now_ms=self.now_ms)
        if self.log.start_offset:
            restart_at(follower, self.log.start_offset)
        while follower.end_offset < self.log.end_offset:
            piece = self.log.read(follower.end_offset, max_bytes, upto=self.log.end_offset, at_least_one=True)
            data = memoryview(bytes(piece.load()))
            if not data:
                break
            headers = received_batches(data)
            if headers[0].base_offset < follower.end_offset:
                # The leader's log starts within a batch.
                restart_at(follower, headers[0].base_offset)
            append_replicated(follower, data, headers, self.now_ms)
        stable_offset = follower.producer_states.transactions.last_stable_offset(follower.end_offset)
        start_offset = self.log.start_offset
        read = [
            committed_records(each, stable_offset, start=start_offset, max_bytes=500) for each in (follower, self.log)
        ]
        assert read[0] == read[1]
        if not start_offset:
            assert stable_offset == last_stable_offset(self.written, self.log.end_offset)
            assert list(follower.aborted.rows) == list(self.log.aborted.rows) or self.was_compacted
        if not start_offset and not self.was_compacted:
            mine, other = (
                [entry._replace(last_used_ms=0) for entry in each.producers()] for each in (self.log, follower)
            )
            assert mine == other
        follower.close()

    # What must hold

    @invariant()
    def holds(self) -> None:
        self.says_what_the_model_says()

    @rule(max_bytes=st.sampled_from([1, 400, 1000, 10_000]), is_cold=st.booleans(), part=st.floats(0, 1))
    def read(self, max_bytes: int, is_cold: bool, part: float) -> None:
        self.disk.is_cold = is_cold
        start = self.log.start_offset
        self.reads_what_is_committed(max_bytes, start + round((self.stable_offset - start) * part))
        self.disk.is_cold = False


TransactionsUnderFire.TestCase.settings = under_fire(max_examples=examples(60), steps=40)
TestTransactionsUnderFire = TransactionsUnderFire.TestCase


def test_an_index_goes_on_behind_what_a_power_cut_has_left_of_its_segment() -> None:
    """Its blocks said that they cover more than that, so the next one did not count, and each start made it anew."""
    log = TransactionsUnderFire()
    abort = (1, False, 1)
    log.begin(policy="delete")
    log.write(turns=[(1, 1, 0, False)])
    log.kill()
    for count in (1, 3, 3):
        log.end_some(ends=[abort] * count)
    log.kill()
    for count in (1, 3):
        log.end_some(ends=[abort] * count)
    log.write(turns=[(1, 1, 0, False), (1, 1, 0, False), (1, 2, 300, False)])
    log.power_cut(seed=243502833)
    log.new_coordinator(which=0)
    log.damaged_index(kind="gone", part=0.0, which=0)
    log.holds()
    log.teardown()
