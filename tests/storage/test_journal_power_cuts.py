"""Several logs that share one journal, on a disk that fails, fills up and loses power at any moment.

Nothing durable is lost, nothing truncated or deleted comes back, nothing else is ever served.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from uuid import UUID

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
from tests.disk.crash import CrashingDisk, PowerOff
from tests.scale import examples, minutes
from tests.storage.fire import under_fire
from tests.storage.journaled_log import DATA, JournaledLog

from penstock.storage.core.journal_entry import PAGE_BYTES
from penstock.storage.journal import Journal, JournalTicket
from penstock.storage.stage import STAGED_BATCH_BYTES, staged_bytes

LOGS = 3
WHICH = st.integers(0, LOGS - 1)
BATCHES = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 10, 300, 700]), st.sampled_from([-1, -1, 1])),
    min_size=1,
    max_size=3,
)
TURNS = st.lists(st.tuples(WHICH, BATCHES), min_size=1, max_size=12)
Turns = list[tuple[int, list[tuple[int, int, int]]]]
ACTIONS = (
    "append",
    "commit",
    "sync",
    "checkpoint",
    "catch up",
    "truncate",
    "delete",
    "retain",
    "anew",
    "away",
    "restart",
)


class JournalUnderFire(RuleBasedStateMachine):
    """The rules may come in any order; a power cut may come within any of them."""

    @initialize(file_pages=st.sampled_from([4, 6, 20]))
    def begin(self, file_pages: int) -> None:
        self.file_bytes = file_pages * PAGE_BYTES
        self.disk = CrashingDisk()
        self.disk.make_directory(DATA)
        self.ids = LOGS
        self.journal = Journal.open(self.disk, DATA, file_bytes=self.file_bytes)
        self.ticket: JournalTicket | None = None
        self.error: OSError | None = None
        self.ticket_ran = False
        self.logs = [JournaledLog(number, self.disk, self.journal) for number in range(LOGS)]
        self.journal.start()

    # What a broker does

    @rule(which=WHICH, batches=BATCHES)
    def append(self, which: int, batches: list[tuple[int, int, int]]) -> None:
        log = self.logs[which]
        for records, size, producer_id in batches:
            if not log.failed:
                log.append(records, size, producer_id)

    @rule(which=WHICH)
    def append_in_bulk(self, which: int) -> None:
        """More than the journal takes."""
        if not self.logs[which].failed:
            self.logs[which].append(2, STAGED_BATCH_BYTES, -1)

    @precondition(lambda self: self.ticket is None)
    @rule()
    def begin_commit(self) -> None:
        staged = [log.log for log in self.logs if staged_bytes(log.log)]
        if staged:
            self.ticket, self.ticket_ran = self.journal.begin(staged, self.logs[0].now_ms), False

    @precondition(lambda self: self.ticket is not None and not self.ticket_ran)
    @rule()
    def run_commit(self) -> None:
        assert self.ticket is not None
        self.error = None
        try:
            self.ticket.run()
        except OSError as error:
            self.error = error
        self.ticket_ran = True

    @precondition(lambda self: self.ticket is not None and self.ticket_ran)
    @rule()
    def finish_commit(self) -> None:
        assert self.ticket is not None
        if self.error is None:
            self.journal.finish(self.ticket)
        else:
            self.journal.fail(self.ticket, self.error, self.logs[0].now_ms)
        self.ticket = None
        for log in self.logs:
            log.promise()

    @rule()
    def commit(self) -> None:
        if self.ticket is None:
            self.begin_commit()
        if self.ticket is not None and not self.ticket_ran:
            self.run_commit()
        if self.ticket is not None:
            self.finish_commit()

    @rule(turns=TURNS, checkpoint=st.booleans())
    def traffic(self, turns: Turns, checkpoint: bool) -> None:
        """Each log is made durable in the way that a broker would choose."""
        for which, batches in turns:
            self.append(which, batches)
            self.flush(checkpoint)

    @rule(turns=TURNS, quiet=WHICH, catches_up=st.booleans(), seed=st.integers(0, 2**32))
    def traffic_up_to_a_cut(self, turns: Turns, quiet: int, catches_up: bool, seed: int) -> None:
        """Through several laps, while one log has something in the journal alone."""
        self.traffic([(quiet, [(1, 10, -1)]), (quiet, [(1, 10, -1)])], checkpoint=False)
        for which, batches in turns * 2:
            self.traffic([(which if which != quiet else (quiet + 1) % LOGS, batches)], checkpoint=False)
            if catches_up:
                self.catch_up()
        self.power_cut(seed, None)

    @rule(turns=TURNS, which=WHICH, part=st.floats(0, 1), seed=st.integers(0, 2**32), after=TURNS | st.just([]))
    def truncation_up_to_a_cut(self, turns: Turns, which: int, part: float, seed: int, after: Turns) -> None:
        self.traffic([(which, batches) for _, batches in turns], checkpoint=False)
        self.begin_commit_of(which)
        self.logs[which].truncate(part)
        self.commit()
        self.traffic(after, checkpoint=False)
        self.power_cut(seed, None)

    def begin_commit_of(self, which: int) -> None:
        if self.ticket is None:
            self.append(which, [(1, 10, -1)])
            self.begin_commit()

    def flush(self, checkpoint: bool = False) -> None:
        self.commit()
        for log in self.logs:
            if not log.failed and log.log.end_offset > log.log.durable_offset:
                log.sync(checkpoint)

    @rule(which=WHICH, checkpoint=st.booleans())
    def begin_sync(self, which: int, checkpoint: bool) -> None:
        self.logs[which].begin_sync(checkpoint)

    @rule(which=WHICH)
    def run_sync(self, which: int) -> None:
        self.logs[which].run_sync()

    @rule(which=WHICH)
    def finish_sync(self, which: int) -> None:
        self.logs[which].finish_sync()

    @rule(which=WHICH, checkpoint=st.booleans())
    def sync(self, which: int, checkpoint: bool) -> None:
        self.logs[which].sync(checkpoint)

    @rule()
    def catch_up(self) -> None:
        """So that the journal can go on in its other file."""
        lagging = self.journal.lagging()
        for log in self.logs:
            if log.log in lagging:
                log.sync()

    @rule(action=st.sampled_from(["truncate", "delete", "retain", "anew", "away"]), which=WHICH, part=st.floats(0, 1))
    def administer(self, action: str, which: int, part: float) -> None:
        self.act(action, which, part)

    @rule(which=WHICH, flush_policy=st.sampled_from(["acked", "os"]))
    def change_policy(self, which: int, flush_policy: str) -> None:
        self.logs[which].use_policy(flush_policy)

    @rule(by_ms=st.sampled_from([1_000, 20_000, 200_000]))
    def time_passes(self, by_ms: int) -> None:
        for log in self.logs:
            log.now_ms += by_ms

    # What happens to it

    def open_all(self) -> None:
        self.ticket = None
        self.journal = Journal.open(self.disk, DATA, file_bytes=self.file_bytes)
        for log in self.logs:
            log.journal = self.journal
            log.open()
        self.journal.start()

    @rule(seed=st.integers(0, 2**32), again_after=st.none() | st.integers(0, 60))
    def power_cut(self, seed: int, again_after: int | None) -> None:
        """And perhaps once more while all is being recovered."""
        choose = Random(seed)
        self.disk.operations_left = None
        self.disk.cut_power(choose)
        self.disk.operations_left = again_after
        try:
            self.open_all()
        except PowerOff:
            self.disk.operations_left = None
            self.disk.cut_power(choose)
            self.open_all()
        self.disk.operations_left = None
        for log in self.logs:
            log.after_reopening()

    @rule(
        action=st.sampled_from(ACTIONS),
        which=WHICH,
        part=st.floats(0, 1),
        operations=st.integers(0, 25),
        seed=st.integers(0, 2**32),
    )
    def power_cut_within(self, action: str, which: int, part: float, operations: int, seed: int) -> None:
        """In the middle of what a broker does, at any call that reaches the disk."""
        self.disk.operations_left = operations
        try:
            self.act(action, which, part)
        except PowerOff:
            self.power_cut(seed, None)
        self.disk.operations_left = None

    def act(self, action: str, which: int, part: float) -> None:
        log = self.logs[which]
        match action:
            case "append":
                self.append(which, [(2, round(700 * part), 1)])
            case "commit":
                self.append(which, [(1, round(700 * part), -1)])
                self.flush()
            case "sync" | "checkpoint":
                log.sync(action == "checkpoint")
            case "catch up":
                self.catch_up()
            case "truncate":
                log.truncate(part)
            case "delete":
                if not log.failed:
                    log.delete_records(part)
            case "retain":
                if not log.failed:
                    log.retain()
            case "anew":
                self.make_anew(which)
            case "away":
                self.move_away_and_back(which)
            case "restart":
                self.restart()

    def make_anew(self, which: int) -> None:
        """Nothing of a topic is on its way when it is deleted, and the metadata know of it before its files go."""
        if self.ticket is None and self.logs[which].ticket is None:
            self.ids += 1
            self.logs[which].make_anew(UUID(int=self.ids))

    def move_away_and_back(self, which: int) -> None:
        if self.ticket is None and self.logs[which].ticket is None:
            self.logs[which].move_away_and_back()

    @rule(turns=TURNS, which=WHICH, again=st.integers(0, 12), seed=st.none() | st.integers(0, 2**32))
    def moving_up_to_a_cut(self, turns: Turns, which: int, again: int, seed: int | None) -> None:
        """While the journal has what the log before had behind that place."""
        turns = [(which, batches) for _, batches in turns]
        self.move_away_and_back(which)
        self.traffic(turns, checkpoint=False)
        self.move_away_and_back(which)
        self.traffic(turns[:again], checkpoint=False)
        if seed is None:
            self.kill()
        else:
            self.power_cut(seed, None)

    @rule()
    def kill(self) -> None:
        """kill -9: the page cache lives on, so nothing at all is lost. After a failed sync the end is unknown."""
        for log in self.logs:
            if not log.failed:
                log.must = log.log.end_offset
        self.open_all()
        for log in self.logs:
            log.after_reopening()

    @rule(which=WHICH)
    def kill_within_a_failing_sync(self, which: int) -> None:
        """Nobody is left who could say that it failed."""
        log = self.logs[which]
        if log.failed or log.ticket is not None or log.log.end_offset == log.log.synced_offset:
            return
        self.disk.fail_next("sync", errno.EIO, path_part=".log")
        log.begin_sync()
        assert log.ticket is not None
        with pytest.raises(OSError):
            log.ticket.run()
        self.open_all()
        for each in self.logs:
            each.after_reopening()

    @rule()
    def restart(self) -> None:
        failed = any(log.failed for log in self.logs) or self.journal.failure is not None
        before = [(log.failed, log.log.end_offset) for log in self.logs]
        for log in self.logs:
            log.log.close()
        self.journal.close()
        self.open_all()
        for log, (log_failed, end_offset) in zip(self.logs, before, strict=True):
            if not log_failed:
                assert (log.log.end_offset, log.log.recovery.scanned_bytes) == (end_offset, 0)
            assert failed or not log.log.recovery.put_back_bytes, "a clean stop leaves nothing to do"
            log.after_reopening()

    @precondition(lambda self: self.ticket is None)
    @rule(number=st.sampled_from([errno.EIO, errno.ENOSPC]), operation=st.sampled_from(["sync", "write"]))
    def failing_commit(self, number: int, operation: str) -> None:
        self.begin_commit()
        if self.ticket is not None:
            durable = [log.log.durable_offset for log in self.logs]
            self.disk.fail_next(operation, number, path_part="/journal/")
            self.commit()
            assert [log.log.durable_offset for log in self.logs] == durable
            assert (self.journal.failure is not None) == (number == errno.EIO)

    @rule(which=WHICH)
    def failing_sync(self, which: int) -> None:
        log = self.logs[which]
        if not log.failed and log.ticket is None and log.log.end_offset > log.log.synced_offset:
            self.disk.fail_next("sync", errno.EIO, path_part=".log")
            log.sync()
            assert log.failed

    @invariant()
    def offsets_are_in_order(self) -> None:
        """And whatever is durable may be acknowledged at any moment."""
        for log in getattr(self, "logs", ()):
            log.promise()
            assert log.log.start_offset <= log.log.end_offset
            assert log.log.synced_offset <= log.log.durable_offset <= log.log.end_offset

    @invariant()
    def what_is_durable_can_be_read(self) -> None:
        for log in getattr(self, "logs", ()):
            if log.log.start_offset < log.must and log.is_readable(log.log.start_offset):
                assert log.served_from(log.log.start_offset)


JournalUnderFire.TestCase.settings = under_fire(max_examples=examples(150), steps=40)
TestJournalUnderFire = JournalUnderFire.TestCase


@pytest.mark.torture("journal-power-cuts")
def test_many_power_cuts(record_property: Callable[[str, object], None]) -> None:
    # About so many in a minute on one core.
    count = round(1500 * minutes(10))
    run_state_machine_as_test(
        JournalUnderFire, settings=settings(JournalUnderFire.TestCase.settings, max_examples=count)
    )
    record_property("examples", count)
