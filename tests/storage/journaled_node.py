"""Logs of one node that share a journal, driven without threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents, sync

from penstock.config.log import LogSettings
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal, JournalTicket
from penstock.storage.journal_file import FILE_BYTES
from penstock.storage.log import Log
from penstock.storage.stage import staged_bytes

DATA = "/data"
T = TypeVar("T")


class NothingKept(Random):
    """A power cut that takes all that it may take."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def random(self) -> float:
        return 1.0


class JournaledNode:
    """Its logs are topics with one partition; each has been synced once, so that the journal may take over."""

    def __init__(
        self, *topics: str, settings: LogSettings | None = None, file_bytes: int = FILE_BYTES, now_ms: int = NOW_MS
    ) -> None:
        self.memory = PowerCutDisk()
        self.settings = settings or LogSettings()
        self.file_bytes = file_bytes
        self.now_ms = now_ms
        self.ids = {topic: UUID(int=number + 1) for number, topic in enumerate(topics)}
        self.logs: dict[str, Log] = {}
        self.open()
        for topic in topics:
            self.write(topic, b"first")
            sync(self.logs[topic])

    def open(self, *, keep_journal: bool = True) -> None:
        self.disk = FaultyDisk(self.memory)
        directories = PartitionDirectories(self.disk, DATA)
        if not keep_journal:
            self.disk.remove_directory(f"{DATA}/journal")
            self.disk.sync_directory(DATA)
        self.journal = Journal.open(self.disk, DATA, file_bytes=self.file_bytes)
        for topic, topic_id in self.ids.items():
            (path,) = directories.claim(topic, topic_id, [0])
            share = self.journal.share_for(topic_id, 0)
            self.logs[topic] = Log.open(self.disk, path, self.settings, now_ms=self.now_ms, share=share)
        self.journal.start()

    def cut_power(self, *, keep_journal: bool = True) -> None:
        self.memory.cut_power(NothingKept())
        self.open(keep_journal=keep_journal)

    def write(self, topic: str, *values: bytes) -> None:
        append(self.logs[topic], batch_of(*values), now_ms=self.now_ms)

    def begin_commit(self, topics: Sequence[str] = ()) -> JournalTicket | None:
        staged = [self.logs[topic] for topic in topics or self.logs if staged_bytes(self.logs[topic])]
        return self.journal.begin(staged, self.now_ms)

    def commit(self, *topics: str) -> None:
        ticket = self.begin_commit(topics)
        assert ticket is not None
        ticket.run()
        self.journal.finish(ticket)

    def use_policy(self, topic: str, flush_policy: str) -> None:
        log = self.logs[topic]
        log.settings = dataclasses.replace(log.settings, flush_policy=flush_policy)

    def make_anew(self, topic: str) -> None:
        self.journal.forget(self.logs[topic])
        self.logs[topic].abandon()
        directories = PartitionDirectories(self.disk, DATA)
        directories.remove_topic(topic)
        directories.sweep()
        self.ids[topic] = UUID(int=self.ids[topic].int + 1000)
        self._open_again(topic)

    def move_away_and_back(self, topic: str) -> None:
        self.journal.forget(self.logs[topic])
        self.logs[topic].abandon()
        directories = PartitionDirectories(self.disk, DATA)
        directories.remove_partitions(topic, [0])
        directories.sweep()
        self._open_again(topic)

    def _open_again(self, topic: str) -> None:
        (path,) = PartitionDirectories(self.disk, DATA).claim(topic, self.ids[topic], [0])
        share = self.journal.share_for(self.ids[topic], 0)
        self.logs[topic] = Log.open(self.disk, path, self.settings, now_ms=self.now_ms, share=share)

    def batches(self, topic: str) -> int:
        """How many can be read, all of them checked."""
        return len(contents(self.logs[topic]))
