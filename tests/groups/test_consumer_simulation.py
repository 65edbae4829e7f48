"""KIP-848 groups under everything that can happen to their members, driven by Hypothesis.

Heartbeats and answers get lost, members crash, stay away, leave, come back, change their minds; topics come, grow and
go; the coordinator restarts. No partition may be in two hands at once, and in quiet times everybody gets their share.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from tests.groups.consumer_client import Client, pairs
from tests.groups.consumer_world import GROUP, World
from tests.scale import examples

from penstock.groups.core.consumer_events import ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_state import ConsumerGroup

TOPICS = ["orders-eu", "orders-us", "bills"]
topic_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4), min_size=1)
names = st.sampled_from([("orders-eu",), ("orders-eu", "orders-us"), tuple(TOPICS), tuple(TOPICS)])
fates = st.sampled_from(["heard", "heard", "heard", "unsent", "unheard"])
patterns = st.sampled_from([None, "orders.*", "bills|orders-eu"])


def durable(group: ConsumerGroup | None) -> Any:
    if group is None:
        return None
    return (
        group.epoch,
        group.assignment_epoch,
        group.metadata_hash,
        group.members,
        group.targets,
        group.static_members,
    )


class ConsumersSimulation(RuleBasedStateMachine):
    clients: Bundle[Client] = Bundle("clients")
    away: Bundle[Client] = Bundle("away")

    @initialize(target=clients, topics=topic_counts, subscriptions=st.lists(names, min_size=1, max_size=3))
    def start(self, topics: dict[str, int], subscriptions: list[tuple[str, ...]]) -> MultipleResults[Client]:
        self.world = World(topics)
        self.topics = topics
        self.alive: list[Client] = []
        self.names_given = 0
        self.epoch = 0
        early = [self.add(Client(self.fresh_id(), subscription, None)) for subscription in subscriptions]
        self.settle()
        return multiple(*early)

    def group(self) -> ConsumerGroup | None:
        group = self.world.runner.machine.state.find(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def add(self, client: Client) -> Client:
        self.alive.append(client)
        return client

    def fresh_id(self) -> str:
        self.names_given += 1
        return f"member-{self.names_given}"

    @rule(target=clients, topics=names, regex=patterns, is_static=st.booleans())
    def arrive(self, topics: tuple[str, ...], regex: str | None, is_static: bool) -> Client:
        member_id = self.fresh_id()
        return self.add(Client(member_id, topics, regex, f"instance-{member_id}" if is_static else None))

    @rule(client=clients, fate=fates, acts=st.booleans())
    def beat(self, client: Client, fate: str, acts: bool) -> None:
        event = client.heartbeat()
        if fate != "unsent":
            answer = self.world.runner.ask(event, ConsumerHeartbeatAnswer)
            if fate == "heard":
                client.hear(answer)
        if acts:
            client.act()

    @rule(turns=st.lists(st.lists(st.tuples(fates, st.booleans()), min_size=1, max_size=4), min_size=1, max_size=3))
    def beat_in_turn(self, turns: list[list[tuple[str, bool]]]) -> None:
        """Most of what happens is this; one at a time Hypothesis would rarely get far."""
        for turn in turns:
            for position, client in enumerate(self.alive):
                self.beat(client, *turn[position % len(turn)])

    @rule(target=away, client=consumes(clients), how=st.sampled_from(["crash", "leave", "leave for a while"]))
    def go(self, client: Client, how: str) -> Client:
        self.alive.remove(client)
        if how != "crash":
            epoch = -2 if how == "leave for a while" and client.instance_id else -1
            self.world.runner.ask(client.goodbye(epoch), ConsumerHeartbeatAnswer)
        return client

    @rule(target=clients, client=consumes(away), same_id=st.booleans())
    def come_back(self, client: Client, same_id: bool) -> Client:
        # A process that crashed is not restarted under its old member id: it would not know it.
        member_id = client.member_id if same_id and not client.held else self.fresh_id()
        return self.add(Client(member_id, client.topics, client.regex, client.instance_id))

    @rule(client=clients, topics=names, regex=patterns)
    def resubscribe(self, client: Client, topics: tuple[str, ...], regex: str | None) -> None:
        client.topics, client.regex = topics, regex

    @rule(topics=topic_counts)
    def change_topics(self, topics: dict[str, int]) -> None:
        grown = {name: max(count, self.topics.get(name, 0)) for name, count in topics.items()}
        self.topics = grown
        self.world.set_topics(grown)

    @rule(by_ms=st.sampled_from([1, 5_000, 30_000, 46_000]))
    def wait(self, by_ms: int) -> None:
        self.world.runner.advance(by_ms)

    @rule(compacted=st.booleans())
    def restart(self, compacted: bool) -> None:
        before = durable(self.group())
        self.world.restart(compacted=compacted)
        assert durable(self.group()) == before

    @rule()
    def settle(self) -> None:
        """Quiet times: everybody sends heartbeats, nothing gets lost. At worst a crashed member has to expire first."""
        for _ in range(30):
            for client in self.alive:
                client.hear(self.world.runner.ask(client.heartbeat(), ConsumerHeartbeatAnswer))
                client.act()
            if not self.alive or self.is_settled():
                break
            self.world.runner.advance(5_000)
        if self.alive:
            assert self.is_settled()
            self.check_everything_is_read()

    def is_settled(self) -> bool:
        group = self.group()
        return (
            group is not None
            and group.state_name == "Stable"
            and group.members.keys() == {client.member_id for client in self.alive}
            and all(client.owned == pairs(group.target_of(client.member_id)) for client in self.alive)
        )

    def check_everything_is_read(self) -> None:
        """Each partition of each existing topic that anybody subscribes to has one reader."""
        wanted = {name for client in self.alive for name in client.topics}
        for client in self.alive:
            wanted |= {None: set(), "orders.*": {"orders-eu", "orders-us"}}.get(client.regex, {"bills", "orders-eu"})
        everything = self.world.ids({name: range(count) for name, count in self.topics.items() if name in wanted})
        read = Counter(pair for client in self.alive for pair in client.owned)
        assert read == Counter(pairs(everything))

    @invariant()
    def no_partition_is_in_two_hands(self) -> None:
        if not hasattr(self, "alive"):
            return
        group = self.group()
        members = group.members if group else {}
        held = Counter(pair for client in self.alive if client.member_id in members for pair in client.held)
        assert not [pair for pair, count in held.items() if count > 1]
        owned = Counter(
            pair
            for member in members.values()
            for pair in pairs(member.current.assigned) | pairs(member.current.pending_revocation)
        )
        assert not [pair for pair, count in owned.items() if count > 1]

    @invariant()
    def epochs_only_grow(self) -> None:
        if not hasattr(self, "alive"):
            return
        group = self.group()
        if group is None:
            # An empty group without offsets is forgotten after a while.
            self.epoch = 0
        else:
            assert group.epoch >= self.epoch
            assert group.assignment_epoch <= group.epoch
            self.epoch = group.epoch

    def teardown(self) -> None:
        if hasattr(self, "alive"):
            self.settle()


TestConsumers = ConsumersSimulation.TestCase
TestConsumers.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
