"""The port that Kafka clients connect to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from penstock.broker.connection import Connection
from penstock.broker.connections import Connections
from penstock.broker.gate import Gate
from penstock.broker.sending import do_not_pace
from penstock.config.address import Address

# A surge of clients after a restart connects within one breath.
BACKLOG = 4096

_CALLS = ("connection_made", "get_buffer", "buffer_updated", "pause_writing", "resume_writing", "connection_lost")


def bind(address: Address) -> socket.socket:
    """Taken before anything is opened, so that a busy port is found at once. OSError if it cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        if ip_address(listener.getsockname()[0]).is_loopback:
            do_not_pace(listener)
    except OSError:
        listener.close()
        raise
    return listener


class _Protocol(asyncio.BufferedProtocol):
    """Hands on what asyncio calls: a connection that inherited from it would be slower, also where it is compiled."""

    def __init__(self, connection: Connection) -> None:
        for call in _CALLS:
            setattr(self, call, getattr(connection, call))


@asynccontextmanager
async def listen(listener: socket.socket, gate: Gate, connections: Connections) -> AsyncIterator[Address]:
    """Yields the address it really listens at; on the way out every connection is closed."""
    server = await asyncio.get_running_loop().create_server(
        lambda: _Protocol(Connection(gate.way_in, connections)), sock=listener, backlog=BACKLOG
    )
    try:
        host, port = listener.getsockname()[:2]
        yield Address(host, port)
    finally:
        server.close()
        connections.close_all()
