"""Frames and request headers, right and wrong ones."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.static.primitive import i16, i32
from tests.wire.messages import SERVED_VERSIONS, kio_bytes

from penstock.units import MIB
from penstock.wire.framing import FrameLimits, Malformed, RequestHeader, read_request_header
from penstock.wire.schemas import request_class

LIMITS = FrameLimits(produce_bytes=100 * MIB)
PRODUCE, METADATA, HEARTBEAT = 0, 3, 12


def prefix(length: int, api_key: int) -> memoryview:
    return memoryview(struct.pack(">ih", length, api_key))


def test_a_frame_is_as_long_as_its_prefix_says_and_the_prefix() -> None:
    assert LIMITS.check_prefix(prefix(100, METADATA)) == 104


@pytest.mark.parametrize("there", range(6))
def test_nothing_is_known_before_the_api_key_is_there(there: int) -> None:
    assert LIMITS.check_prefix(prefix(100, METADATA)[:there]) is None


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 7])
@pytest.mark.parametrize("there", [4, 6])
def test_too_short_a_length_is_refused(length: int, there: int) -> None:
    with pytest.raises(Malformed, match=f"length {length}, a request has at least 8"):
        LIMITS.check_prefix(prefix(length, METADATA)[:there])


def test_two_gigabytes_are_refused_by_the_prefix_alone() -> None:
    with pytest.raises(Malformed, match="2147483647 bytes, at most 104857600"):
        LIMITS.check_prefix(prefix(2**31 - 1, PRODUCE)[:4])


def test_only_produce_may_be_large() -> None:
    assert LIMITS.check_prefix(prefix(100 * MIB, PRODUCE)) == 100 * MIB + 4
    assert LIMITS.check_prefix(prefix(4 * MIB, METADATA)) == 4 * MIB + 4
    with pytest.raises(Malformed, match="at most 104857600 are allowed for API key 0"):
        LIMITS.check_prefix(prefix(100 * MIB + 1, PRODUCE))
    with pytest.raises(Malformed, match="at most 4194304 are allowed for API key 3"):
        LIMITS.check_prefix(prefix(4 * MIB + 1, METADATA))


def test_a_produce_limit_below_the_others_holds_too() -> None:
    with pytest.raises(Malformed, match="at most 1000 are allowed for API key 0"):
        FrameLimits(produce_bytes=1000).check_prefix(prefix(1001, PRODUCE))


def test_tls_is_recognised() -> None:
    with pytest.raises(Malformed, match="TLS handshake"):
        LIMITS.check_prefix(memoryview(bytes.fromhex("160301020001")))


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"POST /x", b"HEAD / ", b"PUT /", b"OPTIONS *", b"PRI * HTTP/2.0"]
)
def test_http_is_recognised(line: bytes) -> None:
    with pytest.raises(Malformed, match="HTTP request on the Kafka port"):
        LIMITS.check_prefix(memoryview(line))


@pytest.mark.parametrize(("api_key", "version"), SERVED_VERSIONS)
@pytest.mark.parametrize("client_id", ["", "gruß", None])
def test_headers_are_read_as_kio_writes_them(api_key: int, version: int, client_id: str | None) -> None:
    kind = request_class(api_key, version).__header_schema__  # type: ignore[attr-defined]
    assert kind in (HeaderV1, HeaderV2)
    header = kind(
        request_api_key=i16(api_key), request_api_version=i16(version), correlation_id=i32(-7), client_id=client_id
    )
    raw = kio_bytes(header)
    assert read_request_header(memoryview(raw + b"body")) == RequestHeader(
        api_key, version, -7, client_id or "", len(raw)
    )


def test_tagged_fields_of_a_header_are_skipped() -> None:
    raw = struct.pack(">hhih", HEARTBEAT, 4, 1, -1) + bytes([2, 0, 3]) + b"abc" + bytes([9, 0])
    assert read_request_header(memoryview(raw + b"body")).body_start == len(raw)


def test_a_version_newer_than_all_has_the_newest_header() -> None:
    raw = struct.pack(">hhih", 18, 99, 5, -1) + b"\0"
    assert read_request_header(memoryview(raw)) == RequestHeader(18, 99, 5, "", len(raw))


def test_the_oldest_header_has_no_client_id() -> None:
    assert read_request_header(memoryview(struct.pack(">hhi", 7, 0, 5))) == RequestHeader(7, 0, 5, "", 8)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\0\0\0", "only 3 bytes"),
        (struct.pack(">hhi", METADATA, 0, 1), "the bytes end before the client id"),
        (struct.pack(">hhih", 999, 0, 1, -1), "unknown API key 999"),
        (struct.pack(">hhi", -1, 0, 1), "unknown API key -1"),
        (struct.pack(">hhih", METADATA, 0, 1, 5) + b"abcd", "client id: length 5 with 4 bytes left"),
        (struct.pack(">hhih", METADATA, 0, 1, -2), "client id: negative length -2"),
        (struct.pack(">hhih", METADATA, 0, 1, 2) + b"\xc3\x28", "client id: not valid UTF-8"),
        (struct.pack(">hhih", METADATA, 9, 1, -1), "the bytes end inside a varint"),
        (struct.pack(">hhih", METADATA, 9, 1, -1) + b"\xff\xff\xff\xff\xff\x01", "varint longer than 5 bytes"),
        (struct.pack(">hhih", METADATA, 9, 1, -1) + b"\x01\x00\x10abc", "tagged field 0 of 16 bytes with 3 bytes left"),
    ],
)
def test_wrong_headers_are_refused(raw: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read_request_header(memoryview(raw))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_malformed(raw: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert read_request_header(memoryview(raw)).body_start <= len(raw)


@given(st.binary(max_size=12))
def test_any_bytes_are_a_prefix_or_malformed(raw: bytes) -> None:
    try:
        whole = LIMITS.check_prefix(memoryview(raw))
        assert whole is None or 12 <= whole <= 100 * MIB + 4
    except Malformed:
        pass
