"""Where logs lie: `<data>/topics/<topic>/partition-<n>/`, and which topic of that name they belong to."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID, uuid4

from penstock.disk.interface import Disk, Space, replace_atomically
from penstock.errors import PenstockError, Problem
from penstock.storage.core.log_files import TOPIC_ID_NAME, TopicIdentity
from penstock.storage.core.sealed import seal
from penstock.storage.sealed import read_sealed

_PARTITION_PREFIX = "partition-"
_KEPT_PREFIX = "kept-until-"
# Beside a topic's id, from the first time that it had flush.policy=os on until a clean stop.
_UNSYNCED_NAME = "acknowledged-unsynced"


class PartitionDirectory(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    path: str


class PartitionDirectories:
    """A topic that was deleted and made anew while this node was down never inherits old records: its directory

    holds the topic's id, and one of another id is set aside, for `sweep` to delete. Blocking.
    """

    def __init__(self, disk: Disk, data_directory: str) -> None:
        self.disk = disk
        self.path = data_directory
        self._topics = f"{data_directory}/topics"
        # Beside the topics, so that no topic name can clash with it.
        self._deleted = f"{data_directory}/deleted"
        # Topics all of whose names are known to be on disk. Whoever made what is there may have been killed before.
        self._named: set[str] = set()
        self._sweeping = threading.Lock()
        self._sweep_wanted = False
        disk.make_directory(self._topics)
        disk.make_directory(self._deleted)
        # In a directory that we may not look into we have made none.
        with suppress(PermissionError):
            disk.sync_directory(data_directory.rpartition("/")[0] or "/")

    def claim(
        self, topic: str, topic_id: UUID, partitions: Iterable[int], *, acknowledges_unsynced: bool = False
    ) -> list[str]:
        """The directories of these partitions, made where they are missing. Their names are on disk when this returns.

        `acknowledges_unsynced`: from then on. Whatever its policy is when somebody asks, that is remembered.
        Raises PenstockError if it is not known whose records are there.
        """
        directory = f"{self._topics}/{topic}"
        found = self._id_of(topic)
        if found is None and self._partitions_in(topic):
            raise PenstockError(
                Problem.STORAGE_FAILED,
                f"{directory}/{TOPIC_ID_NAME} is missing or damaged, so nobody knows which topic's records are beside "
                f"it. Restore that file from a copy, or move {directory} away to begin with an empty topic",
            )
        if found != topic_id:
            self.remove_topic(topic)
            self.disk.make_directory(directory)
            replace_atomically(self.disk, f"{directory}/{TOPIC_ID_NAME}", seal(TopicIdentity(topic_id)))
        paths = [f"{directory}/{_PARTITION_PREFIX}{partition}" for partition in partitions]
        missing = [path for path in paths if not self.disk.exists(path)]
        for path in missing:
            self.disk.make_directory(path, for_good=False)
        mark = f"{directory}/{_UNSYNCED_NAME}"
        is_unmarked = acknowledges_unsynced and not self.disk.exists(mark)
        if is_unmarked:
            self.disk.open(mark, create=True).close()
        if missing or is_unmarked or topic not in self._named:
            self.disk.sync_directory(directory)
            self._named.add(topic)
        return paths

    def existing(self) -> list[PartitionDirectory]:
        """What is there, of topics whose id is known."""
        found = []
        for topic in self.disk.list_directory(self._topics):
            topic_id = self._id_of(topic)
            if topic_id is None:
                continue
            for number, path in self._partitions_in(topic):
                found.append(PartitionDirectory(topic, topic_id, number, path))
        return found

    def unsynced_topics(self) -> list[UUID]:
        """Of which something may have been acknowledged that was on no disk, by a run that did not stop cleanly."""
        ids = (self._id_of(topic) for topic in self._marked())
        return [topic_id for topic_id in ids if topic_id is not None]

    def forget_unsynced(self) -> None:
        """A clean stop: all that was acknowledged is on disk."""
        for topic in self._marked():
            self.disk.remove(f"{self._topics}/{topic}/{_UNSYNCED_NAME}")

    def _marked(self) -> list[str]:
        topics = self.disk.list_directory(self._topics)
        return [topic for topic in topics if self.disk.exists(f"{self._topics}/{topic}/{_UNSYNCED_NAME}")]

    def has_topics(self) -> bool:
        return bool(self.disk.list_directory(self._topics))

    def space(self) -> Space:
        return self.disk.space(self.path)

    def remove_topic(self, topic: str) -> None:
        """All its partitions, whichever id they have; gone for good when this returns, but for what `sweep` deletes."""
        directory = f"{self._topics}/{topic}"
        self._named.discard(topic)
        if not self.disk.exists(directory):
            return
        self.disk.rename(directory, f"{self._deleted}/{uuid4().hex}")
        self.disk.sync_directory(self._topics)
        self.disk.sync_directory(self._deleted)

    def set_aside(self, topic: str, until_ms: int) -> str | None:
        """All its partitions, for `sweep` to delete then; where they are until that, or None if there are none."""
        directory = f"{self._topics}/{topic}"
        self._named.discard(topic)
        if not self.disk.exists(directory):
            return None
        kept = self._new_keep(until_ms)
        # Under its name, which may be as long as a name can be.
        self.disk.rename(directory, f"{kept}/{topic}")
        self.disk.sync_directory(kept)
        self.disk.sync_directory(self._topics)
        return f"{kept}/{topic}"

    def set_partitions_aside(self, topic: str, partitions: Iterable[int], until_ms: int) -> str:
        """Some of them that are there. The topic's id stays, also if it was the last one."""
        directory, kept = f"{self._topics}/{topic}", f"{self._new_keep(until_ms)}/{topic}"
        self.disk.make_directory(kept)
        for partition in partitions:
            name = f"{_PARTITION_PREFIX}{partition}"
            self.disk.rename(f"{directory}/{name}", f"{kept}/{name}")
        self.disk.sync_directory(kept)
        self.disk.sync_directory(directory)
        return kept

    def _new_keep(self, until_ms: int) -> str:
        kept = f"{self._deleted}/{_KEPT_PREFIX}{until_ms}-{uuid4().hex}"
        self.disk.make_directory(kept)
        return kept

    def remove_partitions(self, topic: str, partitions: Iterable[int]) -> None:
        """Some of them; gone for good when this returns. The topic's id stays, also if it was the last one."""
        directory = f"{self._topics}/{topic}"
        for partition in partitions:
            path = f"{directory}/{_PARTITION_PREFIX}{partition}"
            if self.disk.exists(path):
                self.disk.rename(path, f"{self._deleted}/{uuid4().hex}")
        if self.disk.exists(directory):
            self.disk.sync_directory(directory)
        self.disk.sync_directory(self._deleted)

    def sweep(self, now_ms: int | None = None) -> None:
        """Deletes what was set aside, also by a process that died before it had finished. What is to be kept for some

        time is left alone without a time. One thread does it: if another is at it, that one looks once more, and this
        returns at once, because files can take long to go and whoever waited would be missing elsewhere.
        """
        self._sweep_wanted = True
        while self._sweep_wanted and self._sweeping.acquire(blocking=False):
            try:
                self._sweep_wanted = False
                self._sweep_once(now_ms)
            finally:
                self._sweeping.release()

    def _sweep_once(self, now_ms: int | None) -> None:
        for name in self.disk.list_directory(self._deleted):
            until = name.removeprefix(_KEPT_PREFIX).partition("-")[0] if name.startswith(_KEPT_PREFIX) else ""
            if not until.isdecimal() or (now_ms is not None and int(until) <= now_ms):
                self.disk.remove_directory(f"{self._deleted}/{name}")

    def _id_of(self, topic: str) -> UUID | None:
        """None if it is missing or damaged."""
        try:
            identity = read_sealed(self.disk, f"{self._topics}/{topic}/{TOPIC_ID_NAME}", TopicIdentity)
        except NotADirectoryError:
            return None
        return None if identity is None else identity.topic_id

    def _partitions_in(self, topic: str) -> list[tuple[int, str]]:
        directory = f"{self._topics}/{topic}"
        try:
            names = self.disk.list_directory(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        numbers = [(name.removeprefix(_PARTITION_PREFIX), name) for name in names if name.startswith(_PARTITION_PREFIX)]
        return [(int(number), f"{directory}/{name}") for number, name in numbers if number.isdecimal()]
