"""The endpoint of audits: off unless it is turned on, for those who know the token, and only for files of logs."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually

from penstock.pipelines.core.audit_findings import Fault
from penstock.pipelines.core.audit_plan import log_findings
from penstock.pipelines.core.audited_log import served_log
from penstock.testing.node import TestNode, node
from penstock.units import KIB, MIB
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
from penstock.wire.schemas import AUDIT

TOKEN = "a-token-of-many-characters"
RATE = 4 * MIB


@pytest.fixture(scope="module")
def audited() -> Iterator[TestNode]:
    with node({"audit.token": TOKEN, "audit.bytes.per.second": str(RATE)}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        topics = [NewTopic("large", 1, config={"segment.bytes": str(MIB)}), NewTopic("other", 2)]
        for future in admin.create_topics(topics).values():
            future.result(10)
        producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0, "compression.type": "none"})
        for number in range(300):
            producer.produce("large", b"%06d" % number * 2000, partition=0)
        assert producer.flush(20) == 0
        yield running


def ask(running: TestNode, request: AuditRequest) -> AuditReply:
    with RawConnection(running.bootstrap) as connection:
        return ask_on(connection, request)


def ask_on(connection: RawConnection, request: AuditRequest) -> AuditReply:
    body = encode_request(request)
    connection.send_frame(struct.pack(">hhih", AUDIT, 0, 1, -1) + body)
    return decode_reply(connection.receive_frame()[4:])


def listed(running: TestNode, topic: str, partition: int = 0) -> ListedLog:
    reply = ask(running, ListLogs(TOKEN))
    return next(log for log in reply.logs if (log.topic, log.partition) == (topic, partition))


def read(log: ListedLog, file: FileName, position: int = 0, length: int = MAX_READ_BYTES) -> ReadFile:
    return ReadFile(TOKEN, log.topic_id, log.partition, log.truncations, file, position, length)


def test_nobody_is_served_without_the_setting() -> None:
    with node() as without:
        assert ask(without, ListLogs("")).problem is AuditProblem.OFF
        assert ask(without, ListLogs(TOKEN)).problem is AuditProblem.OFF


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "x", "ä" * 20])
def test_nobody_is_served_without_the_token(audited: TestNode, token: str) -> None:
    reply = ask(audited, ListLogs(token))
    assert (reply.problem, reply.logs) == (AuditProblem.DENIED, ())
    file = FileName(FileKind.CHECKPOINT)
    assert ask(audited, ReadFile(token, UUID(int=1), 0, 0, file, 0, 1)).problem is AuditProblem.DENIED


def test_logs_are_listed_page_by_page(audited: TestNode) -> None:
    everything = ask(audited, ListLogs(TOKEN)).logs
    names = [(log.topic, log.partition) for log in everything]
    assert names == sorted(names) and {("large", 0), ("other", 0), ("other", 1)} <= set(names)
    behind = ask(audited, ListLogs(TOKEN, after=("large", 0))).logs
    assert [(log.topic, log.partition) for log in behind] == names[names.index(("large", 0)) + 1 :]
    large = listed(audited, "large")
    assert (large.start_offset, large.end_offset, large.high_watermark) == (0, 300, 300)
    assert len(large.segments) > 2
    assert [segment.next_offset for segment in large.segments[:-1]] == [
        segment.base_offset for segment in large.segments[1:]
    ]


def test_files_are_served_as_they_are(audited: TestNode) -> None:
    log = listed(audited, "large")
    segment = log.segments[1]
    directory = Path(audited.data_dir) / "topics" / "large"
    file = FileName(FileKind.LOG, segment.base_offset, segment.generation)
    content = (directory / "partition-0" / f"{segment.base_offset:020d}.log").read_bytes()
    reply = ask(audited, read(log, file, 1000, 5000))
    assert (reply.data, reply.file_size) == (content[1000:6000], len(content))
    assert ask(audited, read(log, file, len(content))).data == b""
    identity = ask(audited, read(log, FileName(FileKind.TOPIC_ID)))
    assert identity.data == (directory / "topic-id").read_bytes()


def test_only_what_a_log_has_is_served(audited: TestNode) -> None:
    log = listed(audited, "large")
    first = FileName(FileKind.LOG, 0, 0)
    assert ask(audited, read(log, FileName(FileKind.LOG, 1, 0))).problem is AuditProblem.CHANGED
    assert ask(audited, read(log, FileName(FileKind.LOG, 0, 1))).problem is AuditProblem.CHANGED
    assert ask(audited, read(log, FileName(FileKind.TRANSACTION_INDEX, 0, 0))).problem is AuditProblem.MISSING
    for topic_id, partition, truncations in ((UUID(int=1), 0, 0), (log.topic_id, 1, 0), (log.topic_id, 0, 7)):
        request = ReadFile(TOKEN, topic_id, partition, truncations, first, 0, 10)
        assert ask(audited, request).problem is AuditProblem.CHANGED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 100,
        encode_request(ListLogs(TOKEN)) + b"x",
        encode_request(ListLogs("x" * 300)),
        encode_request(ReadFile(TOKEN, UUID(int=1), 0, 0, FileName(FileKind.LOG), 0, MAX_READ_BYTES + 1)),
        encode_request(ReadFile(TOKEN, UUID(int=1), 0, 0, FileName(FileKind.LOG, -1), 0, 1)),
        encode_request(ReadFile(TOKEN, UUID(int=1), 0, 0, FileName(FileKind.LOG), -1, 1)),
    ],
)
def test_bad_requests_end_the_connection(audited: TestNode, body: bytes) -> None:
    with RawConnection(audited.bootstrap) as connection:
        connection.send_frame(struct.pack(">hhih", AUDIT, 0, 1, -1) + body)
        assert connection.wait_until_closed() == b""
    assert ask(audited, ListLogs(TOKEN)).problem is None


def test_all_reads_together_keep_to_the_rate(audited: TestNode) -> None:
    log = listed(audited, "large")
    file = FileName(FileKind.LOG, log.segments[0].base_offset, log.segments[0].generation)
    started, got = time.monotonic(), 0
    with RawConnection(audited.bootstrap) as one, RawConnection(audited.bootstrap) as other:
        while got < 3 * RATE // 2:
            for connection in (one, other):
                got += len(ask_on(connection, read(log, file)).data)
    passed_s = time.monotonic() - started
    # A fifth of a second's bytes may have been saved up before.
    assert passed_s >= (got - RATE * 0.2 - MAX_READ_BYTES) / RATE


def test_what_retention_takes_is_served_while_it_is_there_and_gone_then() -> None:
    with node({"audit.token": TOKEN}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        config = {"segment.bytes": str(64 * KIB), "retention.bytes": str(128 * KIB), "file.delete.delay.ms": "60000"}
        admin.create_topics([NewTopic("short", 1, config=config)])["short"].result(10)
        producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0, "batch.size": 16 * KIB})
        for number in range(100):
            producer.produce("short", b"%06d" % number * 1000, partition=0)
        assert producer.flush(20) == 0
        before = listed(running, "short")
        file = FileName(FileKind.LOG, before.segments[0].base_offset, before.segments[0].generation)
        content = ask(running, read(before, file)).data
        assert content
        running.advance(seconds=31)
        eventually(lambda: listed(running, "short").start_offset > 0, "retention has been there")
        assert ask(running, read(before, file)).data == content
        running.advance(seconds=61)
        running.advance(seconds=31)
        eventually(lambda: ask(running, read(before, file)).problem is not None, "its file is gone")
        assert ask(running, read(before, file)).problem is AuditProblem.GONE
        last = before.segments[-1]
        unknown = FileName(FileKind.LOG, last.base_offset + 1, last.generation)
        assert ask(running, read(before, unknown)).problem is AuditProblem.CHANGED


def test_a_log_that_was_gone_when_its_node_started_is_listed_so(tmp_path: Path) -> None:
    settings = {"audit.token": TOKEN}
    with node(settings, data_dir=str(tmp_path)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("small", 1)])["small"].result(10)
        producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for number in range(7):
            producer.produce("small", b"%d" % number, partition=0)
        assert producer.flush(20) == 0
        assert listed(running, "small").lost is None
    for path in (tmp_path / "topics" / "small").glob("*/*.log"):
        path.unlink()
    with node(settings, data_dir=str(tmp_path)) as running:
        log = listed(running, "small")
        assert (log.lost, log.start_offset) == ((0, 7), 7)
        (finding,) = log_findings(served_log("broker 1", log, None), [])
        assert (finding.fault, finding.first_offset, finding.next_offset) == (Fault.MISSING_OFFSETS, 0, 7)
