"""A data directory that no node uses, or a copy of one, as a source of an audit. Read only."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import msgspec

from penstock.pipelines.audit_tasks import Loaded
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_source import FileMissing, FileUnreadable, shown
from penstock.pipelines.core.audited_log import NO_TOPIC_ID, missing_rows, stopped_log
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.storage.core.checkpoint import Checkpoint, StartOffset
from penstock.storage.core.log_files import (
    CHECKPOINT_NAME,
    GAPS_NAME,
    LOG_SUFFIX,
    START_OFFSET_NAME,
    TOPIC_ID_NAME,
    TopicIdentity,
    segment_stem,
)
from penstock.storage.core.sealed import unseal
from penstock.wire.audit_messages import FileKind, FileName

T = TypeVar("T", bound=msgspec.Struct)

_PARTITION_PREFIX = "partition-"
_LOCK_NAME = ".lock"


@dataclass(frozen=True)
class DirectorySource:
    """`path` must be the same for the driver and for every executor."""

    path: str
    is_served = False

    @property
    def replica(self) -> str:
        return self.path

    def load(self, topics: frozenset[str] | None) -> Loaded:
        """Of these topics, or of all. Raises PipelineRefused: it is no node's directory, or a node runs on it."""
        _refuse_if_used(self.path)
        loaded = Loaded([], [], set())
        root = f"{self.path}/topics"
        try:
            names = sorted(os.listdir(root))
        except OSError as error:
            raise PipelineRefused(f"{self.path} is no data directory of a node: {error}") from None
        for topic in names:
            if (topics is None or topic in topics) and os.path.isdir(f"{root}/{topic}"):
                try:
                    self._load_topic(topic, f"{root}/{topic}", loaded)
                except OSError as error:
                    loaded.findings.append(Finding(topic, -1, self.path, Fault.UNREADABLE_FILE, str(error)))
        return loaded

    def files(self, topic: str, topic_id: UUID, partition: int, truncations: int) -> DirectoryFiles:
        return DirectoryFiles(f"{self.path}/topics/{topic}/{_PARTITION_PREFIX}{partition}")

    def close(self) -> None:
        """It keeps nothing open."""

    def _load_topic(self, topic: str, directory: str, loaded: Loaded) -> None:
        identity = _unsealed(f"{directory}/{TOPIC_ID_NAME}", TopicIdentity)
        partitions = sorted(
            int(name.removeprefix(_PARTITION_PREFIX))
            for name in os.listdir(directory)
            if name.startswith(_PARTITION_PREFIX) and name.removeprefix(_PARTITION_PREFIX).isdecimal()
        )
        for partition in partitions:
            if identity is None:
                text = "it is missing or damaged, so the next start does not open the topic"
                loaded.findings.append(
                    Finding(topic, partition, self.path, Fault.DAMAGED_TOPIC_ID, text, TOPIC_ID_NAME)
                )
            path = f"{directory}/{_PARTITION_PREFIX}{partition}"
            self._load_log(topic, identity.topic_id if identity else NO_TOPIC_ID, partition, path, loaded)

    def _load_log(self, topic: str, topic_id: UUID, partition: int, path: str, loaded: Loaded) -> None:
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(path) if entry.is_file()}

        def find(fault: Fault, text: str, file: str, first_offset: int = -1, next_offset: int = -1) -> None:
            loaded.findings.append(Finding(topic, partition, self.path, fault, text, file, first_offset, next_offset))

        checkpoint = _unsealed(f"{path}/{CHECKPOINT_NAME}", Checkpoint)
        if checkpoint is None and CHECKPOINT_NAME in sizes:
            find(Fault.DAMAGED_CHECKPOINT, "what it says cannot be read", CHECKPOINT_NAME)
        start = _unsealed(f"{path}/{START_OFFSET_NAME}", StartOffset)
        if start is None and START_OFFSET_NAME in sizes:
            find(Fault.DAMAGED_CHECKPOINT, "what it says cannot be read", START_OFFSET_NAME)
        start_offset = 0 if start is None else start.start_offset
        log = stopped_log(self.path, topic, topic_id, partition, sizes, GAPS_NAME in sizes, checkpoint, start_offset)
        for row in missing_rows(log, sizes):
            file = segment_stem(row.base_offset, row.generation) + LOG_SUFFIX
            find(Fault.MISSING_SEGMENT, "it is not there", file, row.base_offset, row.next_offset)
        loaded.logs.append(log)


class DirectoryFiles:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self, file: FileName) -> LocalFile:
        parent = os.path.dirname(self._directory) if file.kind is FileKind.TOPIC_ID else self._directory
        return LocalFile(f"{parent}/{shown(file)}")


class LocalFile:
    """Closes itself when nobody refers to it any more."""

    def __init__(self, path: str) -> None:
        """Raises FileMissing, FileUnreadable."""
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
            self.size = os.fstat(self._file.fileno()).st_size
        except FileNotFoundError:
            raise FileMissing(path) from None
        except OSError as error:
            raise FileUnreadable(str(error)) from error

    def read(self, position: int, length: int, /) -> bytes:
        parts = []
        try:
            while length and (part := os.pread(self._file.fileno(), length, position)):
                parts.append(part)
                position, length = position + len(part), length - len(part)
        except OSError as error:
            raise FileUnreadable(str(error)) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsealed(path: str, kind: type[T]) -> T | None:
    """None if it is missing or garbage."""
    try:
        with open(path, "rb") as file:
            return unseal(file.read(), kind)
    except OSError:
        return None


def _refuse_if_used(path: str) -> None:
    """A node that runs holds the lock, and changes what would be read; let it serve the audit then."""
    try:
        lock = os.open(f"{path}/{_LOCK_NAME}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PipelineRefused(
            f"a node runs on {path}: stop it, use a copy, or audit through the node with --bootstrap and --token"
        ) from None
    finally:
        with suppress(OSError):
            os.close(lock)
