"""A broker's logs as a source of an audit, through the endpoint that serves their files as they are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse

from penstock.config.address import Address
from penstock.pipelines.audit_tasks import Loaded, Source
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_source import FileMissing, FileUnreadable, LogChanged, shown, whole
from penstock.pipelines.core.audited_log import AuditedLog, served_log
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.rpc.core.call import private_call
from penstock.spark.connection import Connection
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import ClientFailure, NoAnswer
from penstock.storage.core.checkpoint import Checkpoint
from penstock.storage.core.log_files import CHECKPOINT_NAME, TOPIC_ID_NAME, TopicIdentity
from penstock.storage.core.sealed import unseal
from penstock.units import MINUTE_MS
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

# A lost connection, or a broker that is busy. One that restarts is met again in the next round.
_TRIES = 4
_PAUSE_S = 0.5
# At a low rate a read waits for those before it.
_REQUEST_TIMEOUT_MS = 2 * MINUTE_MS


Placement = dict[tuple[str, int], tuple[str, ...]]
"""By what names the brokers go that should have a replica of each partition."""


def audit_settings(bootstrap: tuple[Address, ...]) -> ClientSettings:
    return ClientSettings(bootstrap, client_id="penstock-audit", request_timeout_ms=_REQUEST_TIMEOUT_MS)


def brokers_of(settings: ClientSettings) -> tuple[dict[int, Address], Placement]:
    """Those that are there, and where replicas should be. Raises PipelineRefused."""
    failures = []
    for address in settings.bootstrap:
        try:
            connection = Connection(address, settings)
        except ClientFailure as error:
            failures.append(str(error))
            continue
        try:
            request = MetadataRequest(
                topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
            )
            answer = connection.ask(request, MetadataResponse)
        except ClientFailure as error:
            failures.append(str(error))
            continue
        finally:
            connection.close()
        placement: Placement = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                replicas = tuple(_name(int(node_id)) for node_id in partition.replica_nodes)
                placement[str(topic.name), int(partition.partition_index)] = replicas
        return {int(row.node_id): Address(row.host, row.port) for row in answer.brokers}, placement
    raise PipelineRefused("no broker answers: " + "; ".join(failures))


def sources_of(addresses: Mapping[int, Address], settings: ClientSettings, token: str) -> list[Source]:
    return [BrokerSource(node_id, address, settings, token) for node_id, address in sorted(addresses.items())]


def _name(node_id: int) -> str:
    return f"broker {node_id}"


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

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None}

    @property
    def replica(self) -> str:
        return _name(self.node_id)

    def load(self, topics: frozenset[str] | None) -> Loaded:
        """Of these topics, or of all. Raises PipelineRefused: it serves no audit, or not with this token; and

        FileUnreadable if it does not answer.
        """
        loaded = Loaded([], [])
        after: tuple[str, int] | None = None
        while True:
            reply = self.ask(ListLogs(self.token, after))
            for listed in reply.logs:
                if topics is None or listed.topic in topics:
                    log = self._load(listed, loaded.findings)
                    if log is not None:
                        loaded.logs.append(log)
            if not reply.has_more or not reply.logs:
                return loaded
            after = reply.logs[-1].topic, reply.logs[-1].partition

    def files(self, topic: str, topic_id: UUID, partition: int, truncations: int) -> BrokerFiles:
        return BrokerFiles(self, topic_id, partition, truncations)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, request: AuditRequest) -> AuditReply:
        """Raises PipelineRefused, FileMissing, FileUnreadable, LogChanged."""
        body, failure = encode_request(request), ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE_S * attempt)
            try:
                reply = self._connected().exchange(private_call(body, _read, AUDIT, self.settings.client_id.encode()))
            except NoAnswer as error:
                failure = str(error)
                continue
            match reply.problem:
                case None:
                    return reply
                case AuditProblem.BUSY:
                    failure = reply.text
                case AuditProblem.CHANGED:
                    raise LogChanged(reply.text)
                case AuditProblem.MISSING:
                    raise FileMissing(reply.text)
                case AuditProblem.UNREADABLE:
                    raise FileUnreadable(reply.text)
                case AuditProblem.OFF | AuditProblem.DENIED:
                    raise PipelineRefused(f"{self.replica} at {self.address}: {reply.text}")
        raise FileUnreadable(f"{self.replica} gives no answer: {failure}")

    def _load(self, listed: ListedLog, findings: list[Finding]) -> AuditedLog | None:
        files = self.files(listed.topic, listed.topic_id, listed.partition, listed.truncations)

        def find(fault: Fault, text: str, file: str = "") -> None:
            findings.append(Finding(listed.topic, listed.partition, self.replica, fault, text, file))

        try:
            data = whole(files, FileName(FileKind.CHECKPOINT))
            checkpoint = None if data is None else unseal(data, Checkpoint)
            if data is not None and checkpoint is None:
                find(Fault.DAMAGED_CHECKPOINT, "what it says cannot be read", CHECKPOINT_NAME)
            identity = whole(files, FileName(FileKind.TOPIC_ID))
            if identity is None or unseal(identity, TopicIdentity) is None:
                text = "it is missing or damaged, so the next start does not open the topic"
                find(Fault.DAMAGED_TOPIC_ID, text, TOPIC_ID_NAME)
        except LogChanged as error:
            find(Fault.NOT_AUDITED, str(error))
            return None
        except FileUnreadable as error:
            find(Fault.UNREADABLE_FILE, str(error))
            return None
        return served_log(self.replica, listed, checkpoint)

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
        """Raises FileMissing, FileUnreadable, LogChanged."""
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


def _read(data: bytes) -> AuditReply:
    try:
        return decode_reply(data)
    except ValueError as error:
        raise Malformed("audit's reply", str(error)) from None
