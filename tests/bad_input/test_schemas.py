"""Requests whose header is right and whose body is not."""

from __future__ import annotations

import struct

import pytest
from tests.bad_input import requests
from tests.bad_input.broker import Broker
from tests.bad_input.conftest import Bystander
from tests.bad_input.raw import ConnectionClosed, RawConnection, header_bytes, packed

MIB = 1024 * 1024
PRODUCE, FETCH, METADATA, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT = 0, 1, 3, 9, 11, 12
DESCRIBE_GROUPS, API_VERSIONS, CREATE_TOPICS, CONSUMER_GROUP_HEARTBEAT = 15, 18, 19, 68
MOST = struct.pack(">i", 2**31 - 1)

# (API, version, is the version flexible, body)
Case = tuple[int, int, bool, bytes]

COUNTS: dict[str, Case] = {
    "Metadata 9, what ends an unguarded process": (METADATA, 9, True, bytes.fromhex("ffffffff0f")),
    "Metadata 12": (METADATA, 12, True, bytes.fromhex("feffffff0f")),
    "Metadata 1": (METADATA, 1, False, MOST),
    "CreateTopics 5": (CREATE_TOPICS, 5, True, bytes.fromhex("ffffffff0f")),
    "CreateTopics 5, inner": (
        CREATE_TOPICS,
        5,
        True,
        b"\x02\x02x" + struct.pack(">ih", 1, 1) + b"\xff\xff\xff\xff\x0f",
    ),
    "DescribeGroups 0": (DESCRIBE_GROUPS, 0, False, MOST),
    "OffsetFetch 8": (OFFSET_FETCH, 8, True, bytes.fromhex("ffffffff07")),
    "Fetch 11": (FETCH, 11, False, struct.pack(">iiiibii", -1, 0, 1, 1, 0, 0, -1) + MOST),
    "Produce 8": (PRODUCE, 8, False, struct.pack(">hhi", -1, -1, 1000) + MOST),
    "Produce 9": (PRODUCE, 9, True, b"\x00" + struct.pack(">hi", -1, 1000) + b"\xff\xff\xff\xff\x0f"),
    "Produce 8, inner": (PRODUCE, 8, False, struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"x" + MOST),
    "Produce 8, records": (PRODUCE, 8, False, struct.pack(">hhiih", -1, -1, 1000, 1, 1) + b"x\0\0\0\1\0\0\0\0" + MOST),
    "a string": (HEARTBEAT, 0, False, struct.pack(">h", 32767) + b"short"),
    "a compact string": (HEARTBEAT, 4, True, bytes.fromhex("ffffffff0f") + b"short"),
}

VARINTS: dict[str, Case] = {
    "a count of six bytes": (METADATA, 9, True, bytes.fromhex("80808080800000000000")),
    "a count of endless bytes": (METADATA, 9, True, b"\x80" * 200),
    "a count of more than 32 bits": (METADATA, 9, True, bytes.fromhex("ffffffff7f") + bytes(20)),
    "a string length of endless bytes": (HEARTBEAT, 4, True, b"\xff" * 200),
    "a number of tagged fields": (API_VERSIONS, 3, True, b"\x02a\x02b" + b"\xff" * 50),
}

NULLS: dict[str, Case] = {
    "a group id": (HEARTBEAT, 0, False, struct.pack(">hih", -1, 0, 1) + b"m"),
    "a compact group id": (HEARTBEAT, 4, True, b"\x00" + struct.pack(">i", 0) + b"\x02m\x00\x00"),
    "a topic name": (METADATA, 9, True, b"\x02\x00\x00\x00\x00\x00\x00"),
    "an array": (DESCRIBE_GROUPS, 0, False, struct.pack(">i", -1)),
    "the topics of a produce request": (PRODUCE, 8, False, struct.pack(">hhii", -1, -1, 1000, -1)),
    "a length of -2": (HEARTBEAT, 0, False, struct.pack(">h", -2) + bytes(20)),
}

CUT: dict[str, Case] = {
    "nothing": (METADATA, 9, True, b""),
    "half a number": (HEARTBEAT, 0, False, struct.pack(">h", 1) + b"g\x00\x00"),
    "no end of tagged fields": (HEARTBEAT, 4, True, b"\x02g" + struct.pack(">i", 0) + b"\x02m\x00"),
    "a tagged field beyond the frame": (API_VERSIONS, 3, True, b"\x02a\x02b\x01\x05\xff\xff\x03"),
    "text that is no text": (HEARTBEAT, 0, False, struct.pack(">h", 2) + b"\xff\xfe" + bytes(10)),
}


def send(broker: Broker, case: Case) -> bytes | None:
    """The answer, or None for a closed connection."""
    api_key, version, flexible, body = case
    with broker.connect() as connection:
        connection.send_frame(header_bytes(api_key, version, 1, flexible=flexible) + body)
        try:
            return connection.receive_frame()
        except ConnectionClosed:
            return None


@pytest.mark.parametrize("case", COUNTS.values(), ids=COUNTS)
def test_a_count_beyond_the_bytes_left_closes_the_connection(broker: Broker, case: Case) -> None:
    assert send(broker, case) is None


@pytest.mark.parametrize("case", VARINTS.values(), ids=VARINTS)
def test_a_varint_too_long_closes_the_connection(broker: Broker, case: Case) -> None:
    if case == VARINTS["a count of more than 32 bits"] and not broker.is_penstock:
        pytest.skip("Apache Kafka drops the bits that are too many")
    assert send(broker, case) is None


@pytest.mark.parametrize("case", NULLS.values(), ids=NULLS)
def test_null_where_none_is_allowed_closes_the_connection(broker: Broker, case: Case) -> None:
    assert send(broker, case) is None


@pytest.mark.parametrize("case", CUT.values(), ids=CUT)
def test_a_body_that_ends_too_early_closes_the_connection(broker: Broker, case: Case) -> None:
    if case == CUT["text that is no text"] and not broker.is_penstock:
        pytest.skip("Apache Kafka replaces what it cannot read")
    assert send(broker, case) is None


def test_counts_beyond_the_bytes_left_take_no_memory(broker: Broker) -> None:
    with broker.growing_at_most(8 * MIB):
        for case in COUNTS.values():
            send(broker, case)


def test_thousands_of_tagged_fields(broker: Broker) -> None:
    """Unknown tags are to be skipped, so an answer is right as well; what they cost is what matters."""
    tags = b"".join(_uvarint(tag) + b"\x01x" for tag in range(100, 20_100))
    request = packed(requests.metadata("nobody-has-this"), 1)
    with broker.connect() as connection:
        connection.send_frame(request[:-1] + _uvarint(20_000) + tags)
        try:
            assert connection.receive_frame()[:4] == struct.pack(">i", 1)
        except ConnectionClosed:
            assert broker.is_penstock


def test_a_million_elements_in_one_request(broker: Broker, bystander: Bystander) -> None:
    if not broker.is_penstock:
        pytest.skip("Apache Kafka answers a million times that it does not know the topic")
    body = _uvarint(1_000_001) + b"\x02a\x00" * 1_000_000 + b"\x00\x00\x00\x00"
    with broker.growing_at_most(64 * MIB), broker.connect() as connection:
        connection.send_frame(header_bytes(METADATA, 9, 1, flexible=True) + body)
        bystander.works()
        assert connection.wait_until_closed() == b""


def test_no_client_id_is_allowed(broker: Broker) -> None:
    request = requests.metadata()
    with broker.connect() as connection:
        body = packed(request, 1, client_id="")
        connection.send_frame(body[:8] + struct.pack(">h", -1) + body[10:])
        assert connection.receive(request, 1).brokers


GARBAGE = {
    "nothing": b"",
    "ones": b"\xff" * 64,
    "large numbers": b"\x7f" * 64,
    "endless varints": b"\x80" * 64,
    "too few zeros": b"\x00" * 2,
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_every_api_survives_garbage(broker: Broker, bystander: Bystander, body: bytes) -> None:
    """In the lowest and the highest version that the broker lists: it answers or it closes, and it does so at once."""
    with broker.connect() as connection:
        rows = connection.ask(requests.api_versions()).api_keys
    for row in rows:
        for version in {row.min_version, row.max_version}:
            for header in (True, False):
                with broker.connect(timeout_s=5) as connection:
                    connection.send_frame(header_bytes(row.api_key, version, 1, flexible=header) + body)
                    if broker.is_penstock:
                        _answered_or_closed(connection, row.api_key, version)
        bystander.works()


def _answered_or_closed(connection: RawConnection, api_key: int, version: int) -> None:
    try:
        connection.receive_frame()
    except ConnectionClosed:
        return
    except TimeoutError:
        pytest.fail(f"API {api_key} version {version} neither answers nor closes")


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
