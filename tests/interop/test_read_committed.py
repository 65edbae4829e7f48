"""Clients at read_committed get what was committed, from a log with every kind of transaction in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import kafka  # type: ignore[import-untyped]
import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka.structs import TopicPartition as AioPartition  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.storage.batches import NOW_MS
from tests.storage.transaction_model import Known, Written, committed, data_batch, end, last_stable_offset
from tests.storage.transaction_model import producers_after as known_after

from penstock.config.log import LogSettings
from penstock.disk.local import LocalDisk
from penstock.storage.log import Log
from penstock.testing import node
from penstock.wire.batch import read_header
from penstock.wire.control import Marker
from penstock.wire.records import Record

TOPIC = "orders"
STEPS = 400
TIMEOUT_S = 15.0
# What a client asks for at a time: less than the log, so that transactions go on from one answer to the next.
FETCH_BYTES = 3000


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def expected(data_dir: str) -> list[tuple[int, bytes]]:
    """Offsets and values; the log is in the node's directory."""
    with node(data_dir=data_dir) as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic(TOPIC)).topics[0].error_code == 0
    log = Log.open(
        LocalDisk(), str(Path(data_dir, "topics", TOPIC, "partition-0")), LogSettings(segment_bytes=5000), now_ms=NOW_MS
    )
    written = _filled(log, Random(1))
    assert log.close() is None
    stable_offset = last_stable_offset(written, log.end_offset)
    found = committed(written, 0, stable_offset)
    assert len(log.segments) > 3 and 0 < stable_offset < log.end_offset
    assert 50 < len(found) < sum(len(batch.records) for batch in written) - 50
    return [(record.offset, record.value or b"") for record in found]


@pytest.fixture(scope="module")
def bootstrap(data_dir: str, expected: list[tuple[int, bytes]]) -> Iterator[str]:
    assert expected
    with node(data_dir=data_dir) as server:
        yield server.bootstrap


def _filled(log: Log, choose: Random) -> list[Written]:
    """Transactions of three producers, aborts of nothing and repeated ones too; the last is open."""
    written: list[Written] = []
    for step in range(STEPS):
        producer_id = choose.randint(1, 3)
        known = known_after(written).get(producer_id, Known(0, -1, -1, -1))
        offset = log.end_offset
        if choose.random() < 0.3 and step < STEPS - 10:
            version = choose.randint(1, 2)
            marker, epoch = Marker(choose.random() < 0.5, 0), known.epoch + version - 1
            end(log, producer_id, epoch, marker, version=version)
            written.append(Written(offset, offset + 1, producer_id, epoch, -1, True, marker, ()))
            continue
        is_transactional = known.transaction_start >= 0 or choose.random() < 0.8 or step >= STEPS - 10
        values = [(b"k", b"%d-%d" % (step, place)) for place in range(choose.randint(1, 3))]
        batch = data_batch(values, producer_id, known.epoch, known.sequence + 1, is_transactional=is_transactional)
        log.append(batch, read_header(batch), leader_epoch=0, now_ms=NOW_MS)
        records = tuple(Record(offset + place, NOW_MS, *value) for place, value in enumerate(values))
        sequence = known.sequence + len(values)
        written.append(
            Written(offset, offset + len(values), producer_id, known.epoch, sequence, is_transactional, None, records)
        )
    return written


def test_confluent_kafka(bootstrap: str, expected: list[tuple[int, bytes]]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": FETCH_BYTES,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int | None, bytes | None]] = []
    try:
        while (message := consumer.poll(TIMEOUT_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                break
            value = message.value()
            found.append((message.offset(), None if value is None else bytes(value)))
    finally:
        consumer.close()
    assert found == expected


def test_aiokafka(bootstrap: str, expected: list[tuple[int, bytes]]) -> None:
    async def read() -> list[tuple[int, bytes]]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", max_partition_fetch_bytes=FETCH_BYTES
        )
        await consumer.start()
        try:
            partition = AioPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            stable_offset = (await consumer.end_offsets([partition]))[partition]
            found: list[tuple[int, bytes]] = []
            async with asyncio.timeout(TIMEOUT_S):
                while await consumer.position(partition) < stable_offset:
                    batches = await consumer.getmany(partition, timeout_ms=200)
                    found += [(record.offset, record.value) for record in batches.get(partition, [])]
            return found
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == expected


def test_kafka_python(bootstrap: str, expected: list[tuple[int, bytes]]) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        max_partition_fetch_bytes=FETCH_BYTES,
        consumer_timeout_ms=1000,
    )
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        found = []
        for record in consumer:
            found.append((record.offset, record.value))
            if len(found) == len(expected):
                break
    finally:
        consumer.close()
    assert found == expected
