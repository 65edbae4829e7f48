"""`group.protocol=consumer` (KIP-848): the broker assigns. Of the Python libraries only confluent-kafka speaks it."""

from __future__ import annotations

import pytest
from tests.interop.admins.confluent import ConfluentAdmin
from tests.interop.conftest import Join
from tests.interop.member import Member, arrived, one_leaves_and_one_crashes, share_out
from tests.interop.server import Server
from tests.interop.waiting import eventually


def test_three_members_join_leave_and_crash(server: Server, join: Join) -> None:
    topic, group = server.topic(partitions=6), server.name("group")
    stays = join("confluent", group, topic, protocol="consumer")
    share_out([stays], {topic: 6})
    arrived([stays], server.write(topic, 6, "one member"))

    leaves, crashes = (join("confluent", group, topic, protocol="consumer") for _ in range(2))
    share_out([stays, leaves, crashes], {topic: 6})
    assert len(stays.revoked) == 4, "more was taken than had to go to the others"
    one_leaves_and_one_crashes(server, topic, (stays, leaves, crashes))
    assert stays.errors == []


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_brokers_assignors(server: Server, join: Join, assignor: str) -> None:
    first, second, group = server.topic(partitions=2), server.topic(partitions=2), server.name("group")
    members = [join("confluent", group, first, second, protocol="consumer", assignor=assignor) for _ in range(2)]
    share_out(members, {first: 2, second: 2})
    if assignor == "range":
        for member in members:
            assert len({index for _, index in member.assignment}) == 1, "range puts equal numbers together"
    arrived(members, server.write(first, 2, "first") + server.write(second, 2, "second"))


def test_a_regular_expression_finds_topics_that_come_later(server: Server, join: Join) -> None:
    first, group = server.topic(partitions=2), server.name("group")
    stem = first.rsplit("-", 1)[0]
    member = join("confluent", group, f"^{stem}-.*", protocol="consumer")
    eventually(lambda: (first, 1) in member.assignment, "the topic that was there")
    second = server.topic(partitions=2)
    eventually(lambda: (second, 1) in member.assignment, "the topic that came later")
    arrived([member], server.write(second, 2, "second"))


def test_static_member_comes_back_to_its_partitions(patient_server: Server, join: Join) -> None:
    server = patient_server
    topic, group = server.topic(partitions=4), server.name("group")

    def start(instance_id: str) -> Member:
        return join("confluent", group, topic, protocol="consumer", instance_id=instance_id, at=server)

    stays, restarts = start("stays"), start("restarts")
    share_out([stays, restarts], {topic: 4})
    # What was shared out anew took something from the one that stays, if only for a while.
    held, given_up = restarts.assignment, stays.revoked

    # Leaving, a static member says that it will be back, so its partitions wait for it.
    restarts.leave()
    written = server.write(topic, 4, "while away")
    again = start("restarts")
    eventually(lambda: again.assignment == held, "the same partitions as before", instead=stays.story)
    arrived([stays, again], written)
    assert stays.revoked == given_up, "the other member was disturbed"


def test_a_group_is_upgraded_while_it_runs(server: Server, join: Join) -> None:
    topic, group = server.topic(partitions=4), server.name("group")
    old = [join("confluent", group, topic, assignor="range") for _ in range(2)]
    share_out(old, {topic: 4})
    arrived(old, server.write(topic, 4, "all classic"))
    admin = ConfluentAdmin(server.bootstrap)
    assert admin.group_type(group) == "classic"

    first_new = join("confluent", group, topic, protocol="consumer")
    old[0].leave()
    share_out([old[1], first_new], {topic: 4})
    arrived([old[1], first_new], server.write(topic, 4, "one of each"))

    second_new = join("confluent", group, topic, protocol="consumer")
    old[1].leave()
    share_out([first_new, second_new], {topic: 4})
    arrived([first_new, second_new], server.write(topic, 4, "all new"))
    assert admin.group_type(group) == "consumer"


def test_the_group_is_described_as_what_it_is(server: Server, join: Join) -> None:
    topic, group = server.topic(partitions=2), server.name("group")
    member = join("confluent", group, topic, protocol="consumer")
    member.wait_for(2)
    admin = ConfluentAdmin(server.bootstrap)
    assert admin.group_type(group) == "consumer"
    found = admin.group(group)
    assert (found.state, found.assignor) == ("stable", "uniform")
    assert found.members == (member.assignment,)
