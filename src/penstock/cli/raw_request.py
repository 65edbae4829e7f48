"""One request that is packed already, over a connection of its own."""

from __future__ import annotations

import socket
import struct

from penstock.cli.connection import REQUEST_TIMEOUT_S
from penstock.config.address import Address

_LENGTH = struct.Struct(">i")
# Far above the answer to any request that a command line can hold.
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024


def ask_raw(node: Address, request: bytes, timeout_s: float = REQUEST_TIMEOUT_S) -> bytes:
    """From a request with its length in front to the answer without it. Raises OSError."""
    with socket.create_connection((node.host, node.port), timeout_s) as connection:
        connection.sendall(request)
        (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
        if not 0 <= length <= _MAX_RESPONSE_BYTES:
            raise ConnectionError("the answer is not of the Kafka protocol")
        return _receive(connection, length)


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(size)
        if not part:
            raise ConnectionError("the node closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
