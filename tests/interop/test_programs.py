"""The clients of other languages: the same scenarios as for Python's. Run by `make torture interop`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop.admins.confluent import ConfluentAdmin
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.leaders import brokers
from tests.interop.member import Member, one_leaves_and_one_crashes, share_out
from tests.interop.membership import Membership
from tests.interop.programs.program import BOTH_PROTOCOLS, Program, go, java, kafkajs
from tests.interop.server import Server
from tests.interop.stored import stored_batches

pytestmark = pytest.mark.torture("interop")

LONG_MS = 60_000
SHORT_MS = 2_000

MAKERS: dict[str, Callable[[Path], Program]] = {
    "java 4.3": lambda directory: java("4.3.1", directory, BOTH_PROTOCOLS),
    "java 2.8": lambda directory: java("2.8.2", directory, ("classic",)),
    "franz-go": lambda directory: go("franz_go", directory, BOTH_PROTOCOLS),
    "sarama": lambda directory: go("sarama", directory, ("classic",)),
    "kafkajs": kafkajs,
}


@pytest.fixture(scope="module", params=MAKERS.values(), ids=list(MAKERS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    made: Program = request.param(tmp_path_factory.mktemp("program"))
    return made


@pytest.fixture
def members() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_produce_with_every_codec(
    program: Program, server: Server, record_property: Callable[[str, str], None]
) -> None:
    record_property("program", program.name)
    for codec in program.codecs:
        topic, prefix = server.topic(partitions=2), "the same words again and again"
        told = {"bootstrap": server.bootstrap, "topic": topic, "count": 100, "partitions": 2}
        assert program.run("produce", **told, prefix=prefix, codec=codec)["count"] == 100
        for partition in range(2):
            batches = stored_batches(server.bootstrap, topic, partition)
            assert {batch.codec for batch in batches} == {codec}
            assert batches[0].producer_id >= 0
            found = ConfluentClient(server.bootstrap).consume(topic, 50, partition=partition)
            assert [it.value for it in found] == [f"{prefix}-{index}".encode() for index in range(partition, 100, 2)]


def test_a_group_of_three_with_a_goodbye_and_a_crash(program: Program, server: Server, members: ExitStack) -> None:
    for protocol in program.protocols:
        _live(program, server, members, protocol)


def _live(program: Program, server: Server, members: ExitStack, protocol: str) -> None:
    topic, group = server.topic(partitions=6), server.name("group")

    def join(session_timeout_ms: int) -> Member:
        told = Membership(server.bootstrap, group, [topic], session_timeout_ms=session_timeout_ms, protocol=protocol)
        return members.enter_context(program.member(told))

    stays, leaves, crashes = join(LONG_MS), join(LONG_MS), join(SHORT_MS)
    share_out([stays, leaves, crashes], {topic: 6}, timeout_s=40)
    assert ConfluentAdmin(server.bootstrap).group_type(group) == protocol
    one_leaves_and_one_crashes(server, topic, (stays, leaves, crashes))


def test_admin(program: Program, server: Server) -> None:
    found = program.run("admin", bootstrap=server.bootstrap, topic=server.name("topic"))
    assert found == {
        "retention.ms": "3600000",
        "max.message.bytes": "2000",
        "partitions": 3,
        "brokers": len(brokers(server.bootstrap)),
        "listed": True,
        "deleted": True,
    }
