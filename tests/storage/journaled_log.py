"""One of several logs that share a journal on a bad disk."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from tests.disk.crash import CrashingDisk
from tests.storage.log_model import LogModel

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal
from penstock.storage.log import Log

DATA = "/data"
SETTINGS = LogSettings(segment_bytes=3000, segment_ms=50_000, index_interval_bytes=256, retention_ms=100_000)


class JournaledLog(LogModel):
    """`must` counts what the journal has as well."""

    def __init__(self, number: int, disk: CrashingDisk, journal: Journal, settings: LogSettings = SETTINGS) -> None:
        self.topic = f"topic-{number}"
        self.topic_id = UUID(int=number + 1)
        self.journal = journal
        self.start(settings, disk)

    def open(self) -> None:
        """Claims the directory as a node does, so that a topic made anew has an empty one."""
        self.ticket, self.ticket_ran, self.deletions, self.failed = None, False, [], False
        (path,) = PartitionDirectories(self.disk, DATA).claim(self.topic, self.topic_id, [0])
        share = self.journal.share_for(self.topic_id, 0)
        self.log = Log.open(self.disk, path, self.settings, now_ms=self.now_ms, share=share)

    def promise(self) -> None:
        """What is durable now may be acknowledged and read."""
        self.must = max(self.must, self.log.durable_offset)

    def begin_sync(self, checkpoint: bool = False) -> None:
        if self.ticket is None:
            self.ticket, self.ticket_ran = self.log.begin_sync(checkpoint=checkpoint), False

    def run_sync(self) -> None:
        if self.ticket is None or self.ticket_ran:
            return
        try:
            self.ticket.run()
        except OSError as error:
            self.log.fail(str(error))
            self.failed, self.ticket = True, None
        self.ticket_ran = True

    def finish_sync(self) -> None:
        if self.ticket is not None and self.ticket_ran:
            self.log.finish_sync(self.ticket)
            self.ticket = None
            self.promise()

    def sync(self, checkpoint: bool = False) -> None:
        self.begin_sync(checkpoint)
        self.run_sync()
        self.finish_sync()

    def truncate(self, part: float) -> None:
        offset = round(self.log.end_offset * part)
        if self.failed or offset == self.log.end_offset:
            return
        # Until it returns, all or nothing of what is behind the cut may be there.
        holding = [base for base in self.sent if base <= offset]
        self.must = min(self.must, max(holding, default=0))
        try:
            self.log.truncate_to(offset)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            self.failed = True
            return
        self.sent = {base: sent for base, sent in self.sent.items() if sent.next_offset <= self.log.end_offset}
        self.must = self.log.durable_offset
        assert self.must == self.log.end_offset
        self.sequences = {entry.producer_id: entry.last_sequence for entry in self.log.producers()}
        self.epoch += 1

    def delete_records(self, part: float) -> None:
        before = round(self.must * part)
        self.possible_start = max(self.possible_start, before)
        try:
            self.log.delete_records(before)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            return
        self.certain_start = max(self.certain_start, before)

    def retain(self) -> None:
        self.possible_start = max(self.possible_start, self.must)
        try:
            self.log.roll_if_due(self.now_ms)
            deletion = self.log.apply_retention(self.now_ms, self.must)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            return
        if deletion is not None:
            try:
                deletion.run()
            except OSError:
                return
            self.certain_start = max(self.certain_start, self.log.start_offset)
        self.possible_start = self.log.start_offset

    def use_policy(self, flush_policy: str) -> None:
        self.settings = self.log.settings = dataclasses.replace(self.settings, flush_policy=flush_policy)

    def make_anew(self, new_id: UUID) -> None:
        """The topic is deleted, and one of the same name made."""
        self.topic_id = new_id
        self.sent, self.must, self.certain_start, self.possible_start = {}, 0, 0, 0
        self.journal.forget(self.log)
        self.log.abandon()
        directories = PartitionDirectories(self.disk, DATA)
        directories.remove_topic(self.topic)
        directories.sweep()
        settings, now_ms = self.settings, self.now_ms
        self.start(settings, self.disk)
        self.now_ms = now_ms

    def move_away_and_back(self) -> None:
        """The partition is made anew under the id that it had."""
        # Until its files are gone it may be as it was.
        self.must = self.certain_start = 0
        self.possible_start = max(self.possible_start, self.log.end_offset)
        self.journal.forget(self.log)
        self.log.abandon()
        directories = PartitionDirectories(self.disk, DATA)
        directories.remove_partitions(self.topic, [0])
        directories.sweep()
        self.sent, self.sequences, self.possible_start = {}, {}, 0
        self.epoch += 1
        self.open()
