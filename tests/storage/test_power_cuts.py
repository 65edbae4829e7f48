"""A log on a disk that fails, fills up and loses power, against a model of what may and what must be there."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.disk.crash import PowerOff
from tests.scale import examples, minutes
from tests.storage.batches import batch_of
from tests.storage.fire import under_fire
from tests.storage.log_model import LogModel

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.wire.batch import HEADER_BYTES, read_header

SETTINGS = LogSettings(
    segment_bytes=1500,
    segment_ms=50_000,
    index_interval_bytes=256,
    retention_ms=100_000,
)


class LogUnderFire(LogModel, RuleBasedStateMachine):
    """The rules may come in any order; a power cut may come within any of them."""

    @initialize(delete_delay_ms=st.sampled_from([0, 10_000]), flush_policy=st.sampled_from(["acked", "os"]))
    def begin(self, delete_delay_ms: int, flush_policy: str) -> None:
        self.start(dataclasses.replace(SETTINGS, file_delete_delay_ms=delete_delay_ms, flush_policy=flush_policy))

    # What a broker does

    @precondition(lambda self: not self.failed)
    @rule(
        batches=st.lists(
            st.tuples(st.integers(1, 3), st.integers(0, 700), st.sampled_from([-1, -1, 1, 2])), min_size=1, max_size=8
        )
    )
    def append_some(self, batches: list[tuple[int, int, int]]) -> None:
        for records, size, producer_id in batches:
            if not self.failed:
                self.append(records, size, producer_id)

    @precondition(lambda self: not self.failed and self.log.producers())
    @rule(which=st.integers(0, 1), back=st.integers(1, 5))
    def append_again(self, which: int, back: int) -> None:
        """A producer that did not see the answer sends a batch of its last five once more."""
        entries = self.log.producers()
        entry = entries[which % len(entries)]
        known = entry.batches[-min(back, len(entry.batches))]
        count = known.last_sequence - known.first_sequence + 1
        batch = batch_of(
            *[b"again"] * count,
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            base_sequence=known.first_sequence,
        )
        end_offset = self.log.end_offset
        answer = self.log.append(batch, read_header(batch), leader_epoch=self.epoch, now_ms=self.now_ms)
        assert answer[:2] == (known.base_offset, known.next_offset)
        assert answer.duplicate
        assert self.log.end_offset == end_offset

    @precondition(lambda self: self.ticket is None)
    @rule(checkpoint=st.booleans())
    def begin_sync(self, checkpoint: bool) -> None:
        self.ticket = self.log.begin_sync(checkpoint=checkpoint)
        self.ticket_ran = False

    @precondition(lambda self: self.ticket is not None and not self.ticket_ran)
    @rule()
    def run_sync(self) -> None:
        assert self.ticket is not None
        try:
            self.ticket.run()
        except OSError as error:
            self.log.fail(str(error))
            self.failed = True
            self.ticket = None
        self.ticket_ran = True

    @precondition(lambda self: self.ticket is not None and self.ticket_ran)
    @rule()
    def finish_sync(self) -> None:
        assert self.ticket is not None
        self.log.finish_sync(self.ticket)
        self.ticket = None
        self.must = max(self.must, self.log.synced_offset)

    @rule(checkpoint=st.booleans())
    def sync(self, checkpoint: bool) -> None:
        if self.ticket is None:
            self.begin_sync(checkpoint)
        if self.ticket is not None and not self.ticket_ran:
            self.run_sync()
        if self.ticket is not None:
            self.finish_sync()

    @rule(by_ms=st.sampled_from([1_000, 20_000, 60_000, 200_000]))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @precondition(lambda self: not self.failed)
    @rule()
    def retain(self) -> None:
        try:
            deletion = self.log.apply_retention(self.now_ms, self.must)
            self.log.roll_if_due(self.now_ms)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            return
        self.possible_start = max(self.possible_start, self.log.start_offset)
        if deletion is not None:
            self.deletions.append((deletion, self.log.start_offset))

    @precondition(lambda self: self.deletions)
    @rule()
    def delete_files(self) -> None:
        deletion, start_offset = self.deletions.pop(0)
        try:
            deletion.run()
        except OSError:
            return
        # A log that has failed is left alone.
        if not self.failed:
            self.certain_start = max(self.certain_start, start_offset)

    @precondition(lambda self: not self.failed)
    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        before = round(self.must * part)
        try:
            start_offset = self.log.delete_records(before)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            return
        assert start_offset >= before
        self.certain_start = max(self.certain_start, before)
        self.possible_start = max(self.possible_start, start_offset)

    @precondition(lambda self: not self.failed)
    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        offset = round(self.log.end_offset * part)
        if offset == self.log.end_offset:
            return
        try:
            self.log.truncate_to(offset)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            self.failed = True
            # Part of it may have happened.
            self.must = min(self.must, max(offset - 2, 0))
            return
        assert self.log.end_offset <= max(offset, self.log.start_offset)
        self.sent = {base: sent for base, sent in self.sent.items() if sent.next_offset <= self.log.end_offset}
        self.must = self.log.end_offset
        self.sequences = {entry.producer_id: entry.last_sequence for entry in self.log.producers()}
        self.epoch += 1

    @rule(part=st.floats(0, 1), is_cold=st.booleans())
    def read(self, part: float, is_cold: bool) -> None:
        span = self.log.end_offset - self.log.start_offset
        offset = self.log.start_offset + round(span * part)
        self.disk.is_cold = is_cold
        try:
            served = self.served_from(offset)
        except PenstockError as error:
            if error.problem is Problem.STORAGE_FAILED:
                assert self.failed
                assert offset >= self.log.synced_offset
            else:
                # Damage in what was not synced at a cut stays; the model has no batch there.
                assert error.problem is Problem.CORRUPT_RECORDS
                assert not any(sent.base_offset <= offset < sent.next_offset for sent in self.sent.values())
            return
        if served:
            assert served[0].base_offset <= offset < served[0].next_offset
        else:
            assert offset == self.log.end_offset or self.failed

    # What happens to it

    @rule(seed=st.integers(0, 2**32), again_after=st.none() | st.integers(0, 25))
    def power_cut(self, seed: int, again_after: int | None) -> None:
        """And perhaps once more while the log is being recovered."""
        choose = Random(seed)
        self.disk.cut_power(choose)
        self.disk.operations_left = again_after
        try:
            self.open()
        except PowerOff:
            self.disk.operations_left = None
            self.disk.cut_power(choose)
            self.open()
        self.disk.operations_left = None
        self.after_reopening()

    @precondition(lambda self: not self.failed)
    @rule(
        action=st.sampled_from(["append", "sync", "checkpoint", "retain", "delete", "truncate", "restart"]),
        part=st.floats(0, 1),
        operations=st.integers(0, 25),
        seed=st.integers(0, 2**32),
    )
    def power_cut_within(self, action: str, part: float, operations: int, seed: int) -> None:
        """In the middle of what a broker does, at any call that reaches the disk."""
        self.disk.operations_left = operations
        try:
            self.act(action, part)
        except PowerOff:
            self.disk.operations_left = None
            self.power_cut(seed, None)
        self.disk.operations_left = None

    def act(self, action: str, part: float) -> None:
        must, end_offset = self.must, self.log.end_offset
        match action:
            case "append":
                self.append(2, round(700 * part), 1)
            case "sync" | "checkpoint":
                self.sync(action == "checkpoint")
            case "retain":
                # The log may drop anything that it must have, should the power be lost before it says so.
                self.possible_start = max(self.possible_start, must)
                self.retain()
                while self.deletions:
                    self.delete_files()
                self.possible_start = self.log.start_offset
            case "delete":
                self.possible_start = max(self.possible_start, round(must * part))
                self.delete_records(part)
            case "truncate":
                holding = [base for base in self.sent if base <= round(end_offset * part)]
                self.must = min(must, max(holding, default=0))
                self.truncate(part)
                self.must = self.log.synced_offset
            case "restart":
                self.restart()

    @rule()
    def kill(self) -> None:
        """kill -9: the page cache lives on, so nothing at all is lost. After a failed sync the end is unknown."""
        if not self.failed:
            self.must = self.log.end_offset
        self.open()
        self.after_reopening()

    @precondition(lambda self: not self.failed and self.ticket is None and self.log.end_offset > self.log.synced_offset)
    @rule()
    def kill_within_a_failing_sync(self) -> None:
        """Nobody is left who could say that it failed."""
        self.disk.fail_next("sync", errno.EIO, path_part=".log")
        self.begin_sync(False)
        assert self.ticket is not None
        with pytest.raises(OSError):
            self.ticket.run()
        self.open()
        self.after_reopening()

    @rule()
    def restart(self) -> None:
        failed = self.failed
        before = self.log.end_offset
        self.log.close()
        self.open()
        if not failed:
            assert self.log.end_offset == before
            assert self.log.recovery.scanned_bytes == 0
        self.after_reopening()

    @precondition(lambda self: not self.failed)
    @rule(taken=st.integers(0, HEADER_BYTES))
    def full_disk(self, taken: int) -> None:
        """The next write stops short and what is left of it fails."""
        self.disk.short_write = taken
        self.disk.fail_next("write", errno.ENOSPC, path_part=".log")
        before = self.log.end_offset
        self.append(1, 0, -1)
        assert self.log.end_offset == before
        assert not self.failed

    @precondition(lambda self: not self.failed and self.ticket is None and self.log.end_offset > self.log.synced_offset)
    @rule()
    def failing_sync(self) -> None:
        self.disk.fail_next("sync", errno.EIO, path_part=".log")
        self.begin_sync(False)
        self.run_sync()
        assert self.failed

    @invariant()
    def offsets_are_in_order(self) -> None:
        assert self.log.start_offset <= self.log.end_offset
        assert self.log.synced_offset <= self.log.end_offset


LogUnderFire.TestCase.settings = under_fire(max_examples=examples(100), steps=40)
TestLogUnderFire = LogUnderFire.TestCase


@pytest.mark.torture("power-cuts")
def test_many_power_cuts(record_property: Callable[[str, object], None]) -> None:
    # About so many in a minute on one core.
    count = round(1500 * minutes(10))
    run_state_machine_as_test(LogUnderFire, settings=settings(LogUnderFire.TestCase.settings, max_examples=count))
    record_property("examples", count)
