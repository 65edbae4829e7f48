"""One broker for the whole run; every test takes topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.client import Client
from tests.interop.clients.aio import AioClient
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.clients.kafka_python import KafkaPythonClient
from tests.interop.clients.kcat import KcatClient
from tests.interop.server import Server, serving

CLIENTS = (ConfluentClient, AioClient, KafkaPythonClient, KcatClient)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, server: Server) -> Client:
    made: Client = request.param(server.bootstrap)
    return made
