"""One broker for the whole run; every test takes topics and groups of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.interop.admin import Admin, FullAdmin
from tests.interop.admins.aio import AioAdmin
from tests.interop.admins.confluent import ConfluentAdmin
from tests.interop.admins.kafka_python import KafkaPythonAdmin
from tests.interop.client import Client
from tests.interop.clients.aio import AioClient
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.clients.kafka_python import KafkaPythonClient
from tests.interop.clients.kcat import KcatClient
from tests.interop.member import Member
from tests.interop.membership import Membership
from tests.interop.server import PATIENT, Server, serving

CLIENTS = (ConfluentClient, AioClient, KafkaPythonClient, KcatClient)
Join = Callable[..., Member]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def patient_server() -> Iterator[Server]:
    with serving(PATIENT) as started:
        yield started


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, server: Server) -> Client:
    if request.param is KcatClient and not shutil.which("kcat"):
        pytest.skip("kcat is not installed: apt-get install kcat")
    made: Client = request.param(server.bootstrap)
    return made


@pytest.fixture
def every_client(server: Server) -> list[Client]:
    """All that are installed, for tests in which they meet."""
    return [kind(server.bootstrap) for kind in CLIENTS if kind is not KcatClient or shutil.which("kcat")]


@pytest.fixture(params=[kind for kind in CLIENTS if kind is not KcatClient], ids=lambda kind: kind.name)
def stamping_client(request: pytest.FixtureRequest, server: Server) -> Client:
    """A client that can give a record's time; kcat has no option for that."""
    made: Client = request.param(server.bootstrap)
    return made


@pytest.fixture(scope="module", params=(ConfluentAdmin, AioAdmin, KafkaPythonAdmin), ids=lambda kind: kind.name)
def admin(request: pytest.FixtureRequest, server: Server) -> Iterator[Admin]:
    made: Admin = request.param(server.bootstrap)
    yield made
    made.close()


@pytest.fixture(scope="module", params=(ConfluentAdmin, KafkaPythonAdmin), ids=lambda kind: kind.name)
def full_admin(request: pytest.FixtureRequest, server: Server) -> Iterator[FullAdmin]:
    made: FullAdmin = request.param(server.bootstrap)
    yield made
    made.close()


@pytest.fixture
def join(server: Server) -> Iterator[Join]:
    """`join(library, group, *topics, **rest_of_membership)`; whoever is still there at the end is killed."""
    with ExitStack() as stack:

        def start(library: str, group: str, *topics: str, at: Server = server, **rest: object) -> Member:
            told = Membership(at.bootstrap, group, topics, **rest)  # type: ignore[arg-type]
            return stack.enter_context(Member.in_python(library, told))

        yield start
