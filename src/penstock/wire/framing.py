"""Request frames: a 4-byte length, a header, a body. Pure; the connection owns the buffer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.wire.bounds import MAX_REQUEST_BYTES, ElementBudget, read_present_string, skip_tagged_fields
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import PRODUCE, request_header_version
from penstock.wire.tuples import new_tuple

__all__ = ["FrameLimits", "Malformed", "RequestHeader", "read_request_header"]

_PREFIX_BYTES: Final = 4
# API key, API version, correlation id: no request is shorter.
_LEAST_FRAME_BYTES: Final = 8

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AND_KEY: Final = struct.Struct(">ih")
_HEADER_0: Final = struct.Struct(">hhi")
_HEADER_1: Final = struct.Struct(">hhih")
_NO_CLIENT_ID: Final = -1

# Read as a length, each of these is far beyond every limit.
_HTTP_METHODS = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
_TLS_HANDSHAKE: Final = b"\x16\x03"


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_start: int


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """The most bytes of one request, without the length prefix: records are large, nothing else needs to be."""

    produce_bytes: int
    other_bytes: int = MAX_REQUEST_BYTES

    def check_prefix(self, received: memoryview) -> int | None:
        """How long the frame at the start of `received` is, with its prefix; None while that cannot be known yet.

        Raises `Malformed` for a frame that is not worth waiting for, as soon as that shows.
        """
        if len(received) >= 6:
            length: int
            length, api_key = _LENGTH_AND_KEY.unpack_from(received)
            limit = self.produce_bytes if api_key == PRODUCE else self.other_bytes
            if _LEAST_FRAME_BYTES <= length <= limit:
                return length + _PREFIX_BYTES
            raise _refusal(received, length, limit, f"API key {api_key}")
        if len(received) >= _PREFIX_BYTES:
            (length,) = _LENGTH.unpack_from(received)
            limit = max(self.produce_bytes, self.other_bytes)
            if not _LEAST_FRAME_BYTES <= length <= limit:
                raise _refusal(received, length, limit, "any API")
        return None


def _refusal(received: memoryview, length: int, limit: int, whose: str) -> Malformed:
    start = bytes(received[:_PREFIX_BYTES])
    if start.startswith(_TLS_HANDSHAKE):
        return Malformed("frame", "a TLS handshake on a plaintext port: set the client's security.protocol=PLAINTEXT")
    if start in _HTTP_METHODS:
        return Malformed("frame", "an HTTP request on the Kafka port: use the port given with --http")
    if length < _LEAST_FRAME_BYTES:
        return Malformed("frame", f"length {length}, a request has at least {_LEAST_FRAME_BYTES} bytes")
    return Malformed("frame", f"{length} bytes, at most {limit} are allowed for {whose}")


def read_request_header(frame: memoryview) -> RequestHeader:
    """`frame` is one whole request without its length prefix. An API key that Kafka does not have is `Malformed`:

    it is unknown what its header looks like, and so where an answer would go.
    """
    try:
        api_key, api_version, correlation_id, size = _HEADER_1.unpack_from(frame)
    except struct.error:
        return _read_shortest_header(frame)
    version = request_header_version(api_key, api_version)
    if version == 0:
        return _read_shortest_header(frame)
    at = _HEADER_1.size
    client_id = ""
    if size >= 0 and at + size <= len(frame):
        try:
            client_id, at = str(frame[at : at + size], "utf-8"), at + size
        except UnicodeDecodeError:
            raise Malformed("client id", "not valid UTF-8") from None
    elif size != _NO_CLIENT_ID:
        client_id, at = read_present_string(frame, at - 2, False, "client id")
    if version == 2:
        if at < len(frame) and frame[at] == 0:
            at += 1
        else:
            at = skip_tagged_fields(frame, at, ElementBudget(), "request header")
    return new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id, at))


def _read_shortest_header(frame: memoryview) -> RequestHeader:
    if len(frame) < _HEADER_0.size:
        raise Malformed("request header", f"only {len(frame)} bytes")
    api_key, api_version, correlation_id = _HEADER_0.unpack_from(frame)
    if request_header_version(api_key, api_version) != 0:
        raise Malformed("request header", "the bytes end before the client id")
    return RequestHeader(api_key, api_version, correlation_id, "", _HEADER_0.size)
