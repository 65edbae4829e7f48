"""Record batches that must not enter a log."""

from __future__ import annotations

import pytest
from tests.bad_input import requests
from tests.bad_input.batches import bomb, good_batch, tampered
from tests.bad_input.broker import Broker

MIB = 1024 * 1024
GZIP = 1
CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87

GOOD = good_batch(3)
PRODUCED = tampered(GOOD, producer_id=7, producer_epoch=0, base_sequence=0)


def produce(broker: Broker, topic: str, records: bytes | None) -> int:
    with broker.connect() as connection:
        answer = connection.ask(requests.produce(topic, records))
    return int(answer.responses[0].partition_responses[0].error_code)


def high_watermark(broker: Broker, topic: str) -> int:
    with broker.connect() as connection:
        return int(connection.ask(requests.fetch(topic)).responses[0].partitions[0].high_watermark)


WRONG = {
    "wrong CRC": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), {CORRUPT_MESSAGE}),
    "record count too high": (tampered(GOOD, record_count=4), {INVALID_RECORD}),
    "record count too low": (tampered(GOOD, record_count=2), {INVALID_RECORD}),
    "record count zero": (tampered(GOOD, record_count=0, last_offset_delta=-1), {INVALID_RECORD}),
    "record count negative": (tampered(GOOD, record_count=-1), {INVALID_RECORD}),
    "last offset delta huge": (tampered(GOOD, last_offset_delta=2**31 - 1), {INVALID_RECORD}),
    "length beyond the frame": (tampered(GOOD, length=len(GOOD)), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length of 2 GB": (tampered(GOOD, length=2**31 - 1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length negative": (tampered(GOOD, length=-1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length below a header": (tampered(GOOD, length=20), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "cut in the header": (GOOD[:40], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "one byte": (b"\x00", {CORRUPT_MESSAGE, INVALID_RECORD}),
    "nothing": (b"", {INVALID_RECORD}),
    "two batches": (GOOD + GOOD, {INVALID_RECORD}),
    "magic 0": (tampered(GOOD, magic=0), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "magic 1": (tampered(GOOD, magic=1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "magic 3": (tampered(GOOD, magic=3), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "control batch": (tampered(GOOD, attributes=0x20), {INVALID_RECORD}),
    "transactional batch": (tampered(GOOD, attributes=0x10), {INVALID_RECORD}),
    "transactional batch of a producer": (tampered(PRODUCED, attributes=0x10), {INVALID_RECORD}),
}


@pytest.mark.parametrize(("records", "codes"), WRONG.values(), ids=WRONG)
def test_a_wrong_batch_is_refused(broker: Broker, records: bytes, codes: set[int]) -> None:
    topic = broker.topic()
    # Apache Kafka calls some of these an unknown server error; Penstock must know what is wrong. It has transactions.
    others = set() if broker.is_penstock else {-1, TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert produce(broker, topic, records) in codes | others
    assert high_watermark(broker, topic) == 0
    assert produce(broker, topic, GOOD) == 0, "a good one behind it"
    assert high_watermark(broker, topic) == 3


def test_an_unknown_compression_is_refused(broker: Broker) -> None:
    topic = broker.topic()
    code = produce(broker, topic, tampered(GOOD, attributes=0x07))
    # Apache Kafka answers UNKNOWN_SERVER_ERROR here, which tells nobody what to do.
    assert code == UNSUPPORTED_COMPRESSION_TYPE or (not broker.is_penstock and code == -1)
    assert high_watermark(broker, topic) == 0


def test_no_records_at_all(broker: Broker) -> None:
    if not broker.is_penstock:
        pytest.skip("Apache Kafka never answers this")
    topic = broker.topic()
    assert produce(broker, topic, None) == INVALID_RECORD
    assert high_watermark(broker, topic) == 0


def test_a_wrong_batch_without_acks_is_not_answered_and_not_kept(broker: Broker) -> None:
    topic = broker.topic()
    with broker.connect() as connection:
        connection.send(requests.produce(topic, WRONG["wrong CRC"][0], acks=0))
        connection.wait_until_closed()
    assert high_watermark(broker, topic) == 0


def test_a_compacted_topic_needs_keys(broker: Broker) -> None:
    topic = broker.topic({"cleanup.policy": "compact"})
    assert produce(broker, topic, good_batch(key=None)) == INVALID_RECORD
    assert high_watermark(broker, topic) == 0


def test_a_compacted_topic_looks_at_so_many_records(broker: Broker) -> None:
    """While it does, everybody waits."""
    if not broker.is_penstock:
        pytest.skip("Apache Kafka has threads for it")
    topic = broker.topic({"cleanup.policy": "compact"})
    assert produce(broker, topic, good_batch(100_001, value=b"", codec=GZIP)) == INVALID_RECORD
    assert high_watermark(broker, topic) == 0
    assert produce(broker, topic, good_batch(100_000, value=b"", codec=GZIP)) == 0


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_decompression_bomb(broker: Broker, codec: str) -> None:
    """A compacted topic is where the broker has to look into what was sent."""
    topic = broker.topic({"cleanup.policy": "compact"})
    records = bomb(codec, 256 * MIB)
    with broker.growing_at_most(64 * MIB):
        assert produce(broker, topic, records) in {CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE}
    assert high_watermark(broker, topic) == 0


def test_compressed_bytes_that_are_none(broker: Broker) -> None:
    topic = broker.topic({"cleanup.policy": "compact"})
    for codec in (1, 2, 3, 4):
        assert produce(broker, topic, tampered(GOOD, attributes=codec)) in {CORRUPT_MESSAGE, INVALID_RECORD, -1}
    assert high_watermark(broker, topic) == 0
