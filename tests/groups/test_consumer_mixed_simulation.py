"""A group between two protocols, driven by Hypothesis: members of both kinds come, go, crash, and change sides.

However often the group is upgraded and downgraded, no partition may be in two hands, and in quiet times everything is
read.
"""

from __future__ import annotations

from collections import Counter

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
from tests.groups.consumer_classic_client import ClassicClient
from tests.groups.consumer_client import Client, pairs
from tests.groups.consumer_world import GROUP, World
from tests.scale import examples

from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_events import ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.limits import GroupLimits

TOPICS = {"orders": 3, "bills": 2}
kinds = st.sampled_from(["modern", "modern", "eager", "cooperative"])
names = st.sampled_from([("orders",), ("bills", "orders"), ("bills", "orders")])
AnyClient = Client | ClassicClient


class MixedSimulation(RuleBasedStateMachine):
    clients: Bundle[AnyClient] = Bundle("clients")
    away: Bundle[AnyClient] = Bundle("away")

    @initialize(target=clients, kinds=st.lists(kinds, min_size=1, max_size=3), settles=st.booleans())
    def start(self, kinds: list[str], settles: bool) -> MultipleResults[AnyClient]:
        self.world = World(TOPICS, limits=GroupLimits(initial_rebalance_delay_ms=0))
        self.alive: list[AnyClient] = []
        self.names_given = 0
        early = [self.make(kind, ("bills", "orders"), None) for kind in kinds]
        if settles:
            self.settle()
        return multiple(*early)

    def members(self) -> set[str]:
        group = self.world.runner.machine.state.find(GROUP)
        if isinstance(group, ClassicGroup | ConsumerGroup):
            return set(group.members)
        return set()

    def make(self, kind: str, topics: tuple[str, ...], instance_id: str | None) -> AnyClient:
        self.names_given += 1
        name = f"{kind}-{self.names_given}"
        client: AnyClient
        if kind == "modern":
            client = Client(name, topics, None, instance_id)
        else:
            client = ClassicClient(self.world, name, topics, cooperative=kind == "cooperative", instance_id=instance_id)
        self.alive.append(client)
        for _ in range(2):
            # A classic member needs two requests to be in: the first brings it an id.
            self.move(client, "heard", True)
        return client

    @rule(target=clients, kind=kinds, topics=names, is_static=st.booleans())
    def arrive(self, kind: str, topics: tuple[str, ...], is_static: bool) -> AnyClient:
        return self.make(kind, topics, f"instance-{self.names_given}" if is_static else None)

    def move(self, client: AnyClient, fate: str, acts: bool) -> None:
        if isinstance(client, ClassicClient):
            if fate == "heard":
                client.step()
            return
        event = client.heartbeat()
        if fate != "unsent":
            answer = self.world.runner.ask(event, ConsumerHeartbeatAnswer)
            if fate == "heard":
                client.hear(answer)
        if acts:
            client.act()

    @rule(
        turns=st.lists(
            st.lists(st.tuples(st.sampled_from(["heard", "heard", "unsent", "unheard"]), st.booleans()), min_size=1),
            min_size=1,
            max_size=5,
        )
    )
    def move_in_turn(self, turns: list[list[tuple[str, bool]]]) -> None:
        for turn in turns:
            for position, client in enumerate(self.alive):
                self.move(client, *turn[position % len(turn)])

    @rule(target=away, client=consumes(clients), crashes=st.booleans())
    def go(self, client: AnyClient, crashes: bool) -> AnyClient:
        self.alive.remove(client)
        if isinstance(client, ClassicClient):
            if not crashes:
                client.leave()
        elif not crashes:
            self.world.runner.ask(client.goodbye(-2 if client.instance_id else -1), ConsumerHeartbeatAnswer)
        return client

    @rule(target=clients, client=consumes(away), kind=kinds)
    def come_back(self, client: AnyClient, kind: str) -> AnyClient:
        """A process starts again, perhaps with another protocol; a static one takes its own place."""
        return self.make(kind, client.topics, client.instance_id)

    @rule(by_ms=st.sampled_from([1, 5_000, 31_000, 61_000]))
    def wait(self, by_ms: int) -> None:
        self.world.runner.advance(by_ms)

    @rule(compacted=st.booleans())
    def restart(self, compacted: bool) -> None:
        self.world.restart(compacted=compacted)
        for client in self.alive:
            if isinstance(client, ClassicClient):
                client.disconnect()

    @rule()
    def settle(self) -> None:
        for _ in range(80):
            for client in self.alive:
                self.move(client, "heard", True)
            if self.is_settled():
                return
            self.world.runner.advance(2_000)
        assert not self.alive, "no end of the rebalance"

    def is_settled(self) -> bool:
        wanted = {name for client in self.alive for name in client.topics}
        everything = pairs(self.world.ids({name: range(count) for name, count in TOPICS.items() if name in wanted}))
        read = Counter(pair for client in self.alive for pair in client.held)
        return (
            read == Counter(everything)
            and self.members() == {client.member_id for client in self.alive}
            and all(client.is_in for client in self.alive if isinstance(client, ClassicClient))
        )

    @invariant()
    def no_partition_is_in_two_hands(self) -> None:
        if not hasattr(self, "alive"):
            return
        members = self.members()
        held = Counter(pair for client in self.alive if client.member_id in members for pair in client.held)
        assert not [pair for pair, count in held.items() if count > 1]

    def teardown(self) -> None:
        if hasattr(self, "alive"):
            self.settle()


TestMixedGroups = MixedSimulation.TestCase
TestMixedGroups.settings = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)
