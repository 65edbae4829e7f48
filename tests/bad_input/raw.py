"""A Kafka connection with nothing in between: the test decides every byte, so it can also send wrong ones."""

from __future__ import annotations

import io
import itertools
import socket
import struct
from types import TracebackType
from typing import Any, Self, cast

from kio.index import load_response_from_request
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload

_LENGTH = struct.Struct(">i")


class ConnectionClosed(Exception):
    """The server ended the connection."""


class RawConnection:
    """One blocking TCP connection. Every wait has a limit, so a server that hangs fails the test instead."""

    def __init__(self, bootstrap: str, timeout_s: float = 10.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise ConnectionClosed(str(error)) from error

    def send_frame(self, body: bytes) -> None:
        self.send_bytes(_LENGTH.pack(len(body)) + body)

    def send(self, request: RequestPayload) -> int:
        """Returns the correlation id, for `receive`."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(packed(request, correlation_id))
        return correlation_id

    def receive_frame(self) -> bytes:
        return self._read_exactly(_LENGTH.unpack(self._read_exactly(4))[0])

    def receive(self, request: RequestPayload, correlation_id: int) -> Any:
        """The decoded answer to `request`; fails when another answer comes first."""
        return answer_in(self.receive_frame(), request, correlation_id)

    def ask(self, request: RequestPayload) -> Any:
        return self.receive(request, self.send(request))

    def wait_until_closed(self) -> bytes:
        """Reads until the server ends the connection; returns what came before that."""
        received = bytearray()
        try:
            while chunk := self.socket.recv(65536):
                received += chunk
        except ConnectionError:
            pass
        return bytes(received)

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self.socket.recv(size - len(data))
            except ConnectionError as error:
                raise ConnectionClosed(str(error)) from error
            if not chunk:
                raise ConnectionClosed(f"closed {size - len(data)} bytes short of {size}")
            data += chunk
        return bytes(data)


def answer_in(frame: bytes, request: RequestPayload, correlation_id: int) -> Any:
    response_type = load_response_from_request(request)
    header, header_size = entity_reader(response_type.__header_schema__)(frame, 0)
    assert header.correlation_id == correlation_id
    response, response_size = entity_reader(response_type)(frame, header_size)
    assert header_size + response_size == len(frame), "bytes left over behind the answer"
    return response


def packed(request: RequestPayload, correlation_id: int, client_id: str = "raw") -> bytes:
    """Header and body of a well-formed request, without the length in front."""
    buffer = io.BytesIO()
    header_type = request.__header_schema__
    facts: dict[str, Any] = {
        "request_api_key": request.__api_key__,
        "request_api_version": request.__version__,
        "correlation_id": i32(correlation_id),
    }
    if header_type.__version__ >= 1:
        facts["client_id"] = client_id
    header = cast(Any, header_type)(**facts)
    entity_writer(header_type)(buffer, header)
    entity_writer(type(request))(buffer, request)
    return buffer.getvalue()


def header_bytes(api_key: int, version: int, correlation_id: int, *, flexible: bool) -> bytes:
    """The header alone, for requests whose body no writer would write."""
    head = struct.pack(">hhi", i16(api_key), i16(version), correlation_id) + b"\x00\x03raw"
    return head + b"\x00" if flexible else head
