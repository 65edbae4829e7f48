"""The clients of other languages: the same scenarios as for Python's. Run by `make torture interop`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.interop.admins.confluent import ConfluentAdmin
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.leaders import brokers
from tests.interop.member import Member, one_leaves_and_one_crashes, share_out
from tests.interop.membership import Membership
from tests.interop.programs.program import BOTH_PROTOCOLS, Program, go, java, kafkajs
from tests.interop.server import Server
from tests.interop.stored import stored_batches
from tests.interop.transactional import TIMEOUT_S, committed, consumer_of, producer_of, transaction
from tests.interop.waiting import eventually

pytestmark = pytest.mark.torture("interop")

LONG_MS = 60_000
SHORT_MS = 2_000

MAKERS: dict[str, Callable[[Path], Program]] = {
    "java 4.3": lambda directory: java("4.3.1", directory, BOTH_PROTOCOLS, transactions=2),
    "java 2.8": lambda directory: java("2.8.2", directory, ("classic",), transactions=1),
    "franz-go": lambda directory: go("franz_go", directory, BOTH_PROTOCOLS, transactions=2),
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


def in_transactions(program: Program, server: Server, what: str, topic: str, **told: object) -> dict[str, Any]:
    if not program.transactions:
        pytest.skip("transactions are not tried with this program")
    names = {"id": server.name("id"), "group": server.name("group"), "topic": topic, **told}
    return program.run(what, bootstrap=server.bootstrap, **names)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(program: Program, server: Server) -> None:
    topic = server.topic(partitions=2)
    expected = in_transactions(program, server, "transactions", topic, count=4, partitions=2)["committed"]
    assert sorted(expected) == ["0-0", "0-1", "2-0", "2-1"]
    eventually(lambda: sorted(committed(server, topic, 2)) == expected, "what was committed is there")
    assert sorted(in_transactions(program, server, "read", topic, partitions=2)["values"]) == expected
    batches = [batch for batch in stored_batches(server.bootstrap, topic) if not batch.is_control]
    rising = [batches[0].producer_epoch + (place if program.transactions == 2 else 0) for place in range(4)]
    assert [batch.producer_epoch for batch in batches] == rising, "version 2 ends every transaction with another epoch"


def test_a_zombie_is_fenced(program: Program, server: Server, record_property: Callable[[str, str], None]) -> None:
    topic = server.topic()
    refused = in_transactions(program, server, "fencing", topic)["refused"]
    record_property("told", refused)
    assert "fenced" in refused.lower()
    eventually(lambda: committed(server, topic) == ["of its successor"], "only that is read")


def test_a_transaction_that_takes_too_long_is_aborted(
    program: Program, server: Server, record_property: Callable[[str, str], None]
) -> None:
    topic = server.topic()
    refused = in_transactions(program, server, "timeout", topic)["refused"]
    record_property("told", refused)
    assert refused
    assert committed(server, topic) == []


def test_consumed_transformed_and_produced_exactly_once(program: Program, server: Server) -> None:
    source, target, group = server.topic(partitions=2), server.topic(partitions=2), server.name("group")
    producer = producer_of(server, server.name("id"))
    for place in range(15):
        transaction(producer, source, f"{place}", f"{place}", partitions=2)
        producer.abort_transaction(TIMEOUT_S) if place % 3 == 0 else producer.commit_transaction(TIMEOUT_S)
    done = in_transactions(program, server, "transform", source, target=target, group=group, count=20)
    assert done["count"] == 20
    expected = sorted(f"<{place}>" for place in range(15) if place % 3 for _ in range(2))
    eventually(lambda: sorted(committed(server, target, 2)) == expected, "each exactly once")
    with consumer_of(server, group) as consumer:
        # Before the last marker, or behind it; some clients commit the one and some the other.
        rows = consumer.committed([TopicPartition(source, 0), TopicPartition(source, 1)], TIMEOUT_S)
        assert {row.offset for row in rows} <= {29, 30}
