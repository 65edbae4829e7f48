"""Groups and their offsets through each library's admin client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.admin import Admin, FullAdmin
from tests.interop.admins.kafka_python import KafkaPythonAdmin
from tests.interop.client import refused
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.member import Member
from tests.interop.membership import Membership
from tests.interop.record import numbered, values
from tests.interop.server import Server
from tests.interop.waiting import eventually

UNKNOWN_MEMBER_ID = 25
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86


class LiveGroup:
    """A group with one member that has read three records."""

    def __init__(self, server: Server) -> None:
        self.topic, self.name = server.topic(partitions=2), server.name("group")
        ConfluentClient(server.bootstrap).produce(self.topic, numbered(3))
        told = Membership(server.bootstrap, self.name, [self.topic], assignor="range")
        self.member = Member.in_python("confluent", told)
        self.member.wait_for(2)
        eventually(lambda: len(self.member.values) == 3, "the member has read")


@pytest.fixture(scope="module")
def live(server: Server) -> Iterator[LiveGroup]:
    group = LiveGroup(server)
    with group.member:
        yield group


def left_group(server: Server) -> tuple[str, str]:
    """A group without members, three records read; returns its name and the topic's."""
    topic, group, client = server.topic(), server.name("group"), ConfluentClient(server.bootstrap)
    client.produce(topic, numbered(5))
    client.read_in_group(group, topic, 3)
    return group, topic


def test_a_live_group_is_listed_and_described(admin: Admin, live: LiveGroup) -> None:
    assert live.name in admin.groups()
    found = admin.group(live.name)
    assert (found.state, found.assignor) == ("stable", "range")
    assert found.members == (frozenset({(live.topic, 0), (live.topic, 1)}),)


def test_a_left_group_is_empty(admin: Admin, server: Server) -> None:
    group, _ = left_group(server)
    assert group in admin.groups()
    found = admin.group(group)
    assert (found.state, found.members) == ("empty", ())


def test_a_groups_offsets(admin: Admin, server: Server) -> None:
    group, topic = left_group(server)
    assert admin.group_offsets(group) == {(topic, 0): 3}
    assert admin.group_offsets(server.name("never")) == {}


def test_a_group_is_deleted_with_its_offsets(full_admin: FullAdmin, server: Server) -> None:
    group, topic = left_group(server)
    full_admin.delete_group(group)
    assert group not in full_admin.groups()
    assert full_admin.group_offsets(group) == {}
    assert values(ConfluentClient(server.bootstrap).read_in_group(group, topic, 5)) == values(numbered(5))


def test_refusals_of_groups(full_admin: FullAdmin, server: Server, live: LiveGroup) -> None:
    with refused(NON_EMPTY_GROUP):
        full_admin.delete_group(live.name)
    with refused(GROUP_ID_NOT_FOUND):
        full_admin.delete_group(server.name("never"))
    with refused(UNKNOWN_MEMBER_ID):
        full_admin.set_group_offsets(live.name, {(live.topic, 0): 0})


def test_a_group_is_sent_back(full_admin: FullAdmin, server: Server) -> None:
    group, topic = left_group(server)
    full_admin.set_group_offsets(group, {(topic, 0): 1})
    assert full_admin.group_offsets(group) == {(topic, 0): 1}
    found = ConfluentClient(server.bootstrap).read_in_group(group, topic, 4)
    assert values(found) == values(numbered(5))[1:]


def test_a_groups_offset_is_forgotten(server: Server, live: LiveGroup) -> None:
    group, topic = left_group(server)
    admin = KafkaPythonAdmin(server.bootstrap)
    try:
        admin.forget_group_offsets(group, [(topic, 0)])
        assert admin.group_offsets(group) == {}
        with refused(GROUP_SUBSCRIBED_TO_TOPIC):
            admin.forget_group_offsets(live.name, [(live.topic, 0)])
    finally:
        admin.close()
