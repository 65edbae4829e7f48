"""The HTTP port inside the node's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.server import ServerState

from penstock.clock import Clock
from penstock.config.address import Address
from penstock.frontend.app import app_of
from penstock.frontend.protocol import BoundedHttpProtocol
from penstock.telemetry.health import Health
from penstock.telemetry.metrics import Metrics

# Scrapers and probes need a handful; more must not eat the descriptors that Kafka clients need.
MAX_CONNECTIONS = 128
# How long a page that is being written may take when the node stops.
SHUTDOWN_SECONDS = 1.0


@asynccontextmanager
async def serve_http(address: Address, metrics: Metrics, health: Health, clock: Clock) -> AsyncIterator[Address]:
    """Yields the address it really listens at. OSError if it cannot.

    uvicorn's protocol is used without its Server, which takes over signals and wakes ten times a second.
    """
    config = uvicorn.Config(app_of(metrics, health), ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()

    def connect() -> asyncio.BaseProtocol:
        if len(state.connections) >= MAX_CONNECTIONS:
            return _Refuse()
        return BoundedHttpProtocol(config, state, clock)

    listener = _listener(address)
    server = await asyncio.get_running_loop().create_server(connect, sock=listener)
    try:
        host, port = listener.getsockname()[:2]
        yield Address(host, port)
    finally:
        server.close()
        await _close(state)


async def _close(state: ServerState) -> None:
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        _, late = await asyncio.wait(state.tasks, timeout=SHUTDOWN_SECONDS)
        for task in late:
            task.cancel()


def _listener(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=MAX_CONNECTIONS)


class _Refuse(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
