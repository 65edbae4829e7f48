"""A broker's logs as a source of an audit, through the endpoint that serves their files as they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import msgspec

from penstock.config.address import Address
from penstock.pipelines.audit_tasks import Loaded
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_source import (
    FileMissing,
    FileUnreadable,
    LogChanged,
    NobodyAnswers,
    SegmentGone,
    shown,
    whole,
)
from penstock.pipelines.core.audited_log import served_log
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.rpc.core.call import private_call
from penstock.spark.connection import Connection
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import NoAnswer
from penstock.storage.core.checkpoint import Checkpoint, StartOffset
from penstock.storage.core.log_files import TopicIdentity
from penstock.storage.core.sealed import unseal
from penstock.wire.audit_messages import (
    MAX_READ_BYTES,
    AuditProblem,
    AuditReply,
    AuditRequest,
    FileKind,
    FileName,
    ListedLog,
    ListLogs,
    ReadFile,
    decode_reply,
    encode_request,
)
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import AUDIT

T = TypeVar("T", bound=msgspec.Struct)

# A lost connection. One that restarts is met again in the next round.
_TRIES = 5
_PAUSE_S = 0.5
# Many tasks that read from one broker wait for each other, and longer than that only at a very low rate.
_BUSY_TRIES = 240
# A file may be replaced by another while it is read part by part.
_READ_TIMES = 3


@dataclass
class BrokerSource:
    """Pickled to executors, where each makes a connection of its own. For one thread."""

    node_id: int
    address: Address
    settings: ClientSettings
    token: str
    is_served = True

    def __post_init__(self) -> None:
        self._connection: Connection | None = None
        self._silence = ""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None, "_silence": ""}

    @property
    def replica(self) -> str:
        return name_of(self.node_id)

    def load(self, topics: frozenset[str] | None) -> Loaded:
        """Of these topics, or of all. Raises PipelineRefused: it serves no audit, or not with this token; and

        NobodyAnswers.
        """
        loaded = Loaded([], [], set())
        after: tuple[str, int] | None = None
        while True:
            reply = self.ask(ListLogs(self.token, after))
            for listed in reply.logs:
                if topics is None or listed.topic in topics:
                    self._load(listed, loaded)
            if not reply.has_more or not reply.logs:
                return loaded
            after = reply.logs[-1].topic, reply.logs[-1].partition

    def files(self, topic: str, topic_id: UUID, partition: int, truncations: int) -> BrokerFiles:
        return BrokerFiles(self, topic_id, partition, truncations)

    def close(self) -> None:
        self._silence = ""
        if self._connection is not None:
            self._connection.close()

    def ask(self, request: AuditRequest) -> AuditReply:
        """Raises PipelineRefused, FileMissing, FileUnreadable, LogChanged, SegmentGone, NobodyAnswers."""
        body = encode_request(request)
        for _ in range(_BUSY_TRIES):
            reply = self._answered(body)
            match reply.problem:
                case None:
                    return reply
                case AuditProblem.BUSY:
                    time.sleep(_PAUSE_S)
                case AuditProblem.CHANGED:
                    raise LogChanged(reply.text)
                case AuditProblem.GONE:
                    raise SegmentGone(reply.text)
                case AuditProblem.MISSING:
                    raise FileMissing(reply.text)
                case AuditProblem.UNREADABLE:
                    raise FileUnreadable(reply.text)
                case AuditProblem.OFF | AuditProblem.DENIED:
                    raise PipelineRefused(f"{self.replica} at {self.address}: {reply.text}")
        raise NobodyAnswers(f"{self.replica} is busy with other reads of audits")

    def _answered(self, body: bytes) -> AuditReply:
        failure = self._silence
        # Who was silent for that long is not waited for again by the same task.
        for attempt in range(0 if failure else _TRIES):
            if attempt:
                time.sleep(_PAUSE_S * attempt)
            try:
                return self._connected().exchange(private_call(body, _read, AUDIT, self.settings.client_id.encode()))
            except NoAnswer as error:
                failure = str(error)
        self._silence = failure
        raise NobodyAnswers(f"{self.replica} gives no answer: {failure}")

    def _load(self, listed: ListedLog, loaded: Loaded) -> None:
        files = self.files(listed.topic, listed.topic_id, listed.partition, listed.truncations)
        name = listed.topic, listed.partition

        def sealed(kind: FileKind, content: type[T], fault: Fault, text: str, *, is_needed: bool = False) -> T | None:
            file = FileName(kind)
            try:
                found, is_there = _unsealed(files, file, content)
            except FileUnreadable as error:
                loaded.findings.append(Finding(*name, self.replica, Fault.UNREADABLE_FILE, str(error), shown(file)))
                return None
            if found is None and (is_there or is_needed):
                loaded.findings.append(Finding(*name, self.replica, fault, text, shown(file)))
            return found

        try:
            unread = "what it says cannot be read"
            checkpoint = sealed(FileKind.CHECKPOINT, Checkpoint, Fault.DAMAGED_CHECKPOINT, unread)
            sealed(FileKind.START_OFFSET, StartOffset, Fault.DAMAGED_CHECKPOINT, unread)
            text = "it is missing or damaged, so the next start does not open the topic"
            sealed(FileKind.TOPIC_ID, TopicIdentity, Fault.DAMAGED_TOPIC_ID, text, is_needed=True)
        except LogChanged:
            loaded.changed.add(name)
            return
        loaded.logs.append(served_log(self.replica, listed, checkpoint))

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._connection = Connection(self.address, self.settings)
        return self._connection


class BrokerFiles:
    """Of one log as it was listed."""

    def __init__(self, source: BrokerSource, topic_id: UUID, partition: int, truncations: int) -> None:
        self._source = source
        self._topic_id = topic_id
        self._partition = partition
        self._truncations = truncations

    def open(self, file: FileName) -> ServedFile:
        return ServedFile(self, file)

    def part(self, file: FileName, position: int, length: int) -> AuditReply:
        return self._source.ask(
            ReadFile(
                self._source.token,
                self._topic_id,
                self._partition,
                self._truncations,
                file,
                position,
                min(length, MAX_READ_BYTES),
            )
        )


class ServedFile:
    def __init__(self, files: BrokerFiles, name: FileName) -> None:
        """Raises as `BrokerSource.ask`."""
        self._files = files
        self._name = name
        first = files.part(name, 0, MAX_READ_BYTES)
        self._first = first.data
        self.size = first.file_size

    def read(self, position: int, length: int, /) -> bytes:
        parts = []
        while length > 0 and position < self.size:
            part = self._first[position : position + length]
            if not part:
                try:
                    part = self._files.part(self._name, position, length).data
                except FileMissing as error:
                    raise FileUnreadable(f"{shown(self._name)} went away while it was read") from error
            if not part:
                break
            parts.append(part)
            position, length = position + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def name_of(node_id: int) -> str:
    return f"broker {node_id}"


def _unsealed(files: BrokerFiles, file: FileName, content: type[T]) -> tuple[T | None, bool]:
    """What it says, and whether there is such a file."""
    data = None
    for _ in range(_READ_TIMES):
        data = whole(files, file)
        if data is not None and (found := unseal(data, content)) is not None:
            return found, True
    return None, data is not None


def _read(data: bytes) -> AuditReply:
    try:
        return decode_reply(data)
    except ValueError as error:
        raise Malformed("audit's reply", str(error)) from None
