"""Groups as they live: members join, leave, crash and come back, and no record is missed."""

from __future__ import annotations

import pytest
from tests.interop.conftest import Join
from tests.interop.member import arrived, one_leaves_and_one_crashes, share_out
from tests.interop.server import Server
from tests.interop.waiting import eventually

# A session so long that only a goodbye can explain a rebalance, and one short enough to wait for.
LONG_MS = 60_000
SHORT_MS = 1_000


@pytest.mark.parametrize("library", ["confluent", "aio", "kafka_python"])
def test_three_members_join_leave_and_crash(server: Server, join: Join, library: str) -> None:
    topic, group = server.topic(partitions=6), server.name("group")
    stays = join(library, group, topic, session_timeout_ms=LONG_MS)
    share_out([stays], {topic: 6})
    arrived([stays], server.write(topic, 6, "one member"))

    leaves = join(library, group, topic, session_timeout_ms=LONG_MS)
    crashes = join(library, group, topic, session_timeout_ms=SHORT_MS)
    share_out([stays, leaves, crashes], {topic: 6})
    one_leaves_and_one_crashes(server, topic, (stays, leaves, crashes))
    assert stays.errors == []


def test_members_of_different_libraries_share_a_group(server: Server, join: Join) -> None:
    """`range` is the one assignor that all three have."""
    topic, group = server.topic(partitions=4), server.name("group")
    members = [join("confluent", group, topic, assignor="range"), join("kafka_python", group, topic)]
    share_out(members, {topic: 4})
    arrived(members, server.write(topic, 4, "together"))


def test_a_group_reads_several_topics(server: Server, join: Join) -> None:
    first, second, group = server.topic(partitions=2), server.topic(partitions=3), server.name("group")
    members = [join("confluent", group, first, second, assignor="roundrobin") for _ in range(2)]
    share_out(members, {first: 2, second: 3})
    arrived(members, server.write(first, 2, "first") + server.write(second, 3, "second"))


def test_a_regular_expression_finds_topics_that_come_later(server: Server, join: Join) -> None:
    """The client matches names itself here, against the metadata of all topics."""
    first, group = server.topic(partitions=2), server.name("group")
    stem = first.rsplit("-", 1)[0]
    member = join("confluent", group, f"^{stem}-.*")
    eventually(lambda: (first, 1) in member.assignment, "the topic that was there")
    second = server.topic(partitions=2)
    eventually(lambda: (second, 1) in member.assignment, "the topic that came later")
    arrived([member], server.write(second, 2, "second"))


@pytest.mark.parametrize("library", ["confluent", "aio", "kafka_python"])
def test_static_member_comes_back_to_its_partitions(server: Server, join: Join, library: str) -> None:
    topic, group = server.topic(partitions=4), server.name("group")
    stays = join(library, group, topic, session_timeout_ms=LONG_MS, instance_id="stays")
    restarts = join(library, group, topic, session_timeout_ms=LONG_MS, instance_id="restarts")
    share_out([stays, restarts], {topic: 4})
    held, rebalances = restarts.assignment, stays.assignments

    restarts.crash()
    written = server.write(topic, 4, "while away")
    again = join(library, group, topic, session_timeout_ms=LONG_MS, instance_id="restarts")
    eventually(lambda: again.assignment == held, "the same partitions as before")
    arrived([stays, again], written)
    assert stays.assignments == rebalances, "the other member was disturbed"


def test_a_second_holder_of_an_instance_id_fences_the_first(server: Server, join: Join) -> None:
    topic, group = server.topic(partitions=1), server.name("group")
    first = join("confluent", group, topic, instance_id="one")
    first.wait_for(1)
    second = join("confluent", group, topic, instance_id="one")
    second.wait_for(1)
    eventually(lambda: any("fenced" in error for error in first.errors), "the first is told so")
    arrived([second], server.write(topic, 1, "to the second"))


@pytest.mark.parametrize("library", ["confluent", "kafka_python"])
def test_cooperative_members_keep_what_they_need_not_give(server: Server, join: Join, library: str) -> None:
    topic, group = server.topic(partitions=6), server.name("group")
    first = join(library, group, topic, assignor="cooperative-sticky", session_timeout_ms=LONG_MS)
    share_out([first], {topic: 6})
    second = join(library, group, topic, assignor="cooperative-sticky", session_timeout_ms=LONG_MS)
    share_out([first, second], {topic: 6})
    assert len(first.revoked) == 3, "an eager rebalance would have taken all six"
    arrived([first, second], server.write(topic, 6, "two members"))

    second.leave()
    share_out([first], {topic: 6})
    assert len(first.revoked) == 3
    arrived([first], server.write(topic, 6, "one member"))
