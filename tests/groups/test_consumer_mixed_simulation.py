"""A group between two protocols, driven by Hypothesis: members of both kinds come, go, crash, and change sides.

However often the group is upgraded and downgraded, no partition may be in two hands, and in quiet times everything is
read. Heartbeats of KIP-848 members go astray and may arrive late.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

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
from tests.groups.consumer_client import KINDS, Client, LibrdkafkaClient, pairs
from tests.groups.consumer_simulation import Moment, moments
from tests.groups.consumer_world import GROUP, World
from tests.scale import examples

from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.limits import GroupLimits

TOPICS = {"orders": 3, "bills": 2}
kinds = st.sampled_from([*KINDS, "eager", "cooperative"])
names = st.sampled_from([("orders",), ("bills", "orders"), ("bills", "orders")])
AnyClient = Client | ClassicClient


class MixedSimulation(RuleBasedStateMachine):
    clients: Bundle[AnyClient] = Bundle("clients")
    away: Bundle[AnyClient] = Bundle("away")

    @initialize(target=clients, kinds=st.lists(kinds, min_size=1, max_size=3), settles=st.booleans())
    def start(self, kinds: list[str], settles: bool) -> MultipleResults[AnyClient]:
        self.world = World(TOPICS, limits=GroupLimits(initial_rebalance_delay_ms=0))
        self.alive: list[AnyClient] = []
        self.late: list[ConsumerGroupHeartbeat] = []
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
        if kind in KINDS:
            client = KINDS[kind](name, topics, None, instance_id)
        else:
            client = ClassicClient(self.world, name, topics, cooperative=kind == "cooperative", instance_id=instance_id)
        self.alive.append(client)
        for _ in range(2):
            # A classic member needs two requests to be in: the first brings it an id.
            self.move(client, ("heard", 0, 2))
        return client

    @rule(target=clients, kind=kinds, topics=names, is_static=st.booleans())
    def arrive(self, kind: str, topics: tuple[str, ...], is_static: bool) -> AnyClient:
        return self.make(kind, topics, f"instance-{self.names_given}" if is_static else None)

    def move(self, client: AnyClient, moment: Moment) -> None:
        fate, steps_before, steps_after = moment
        if isinstance(client, ClassicClient):
            if fate == "heard":
                client.step()
            self.check()
            return
        if isinstance(client, LibrdkafkaClient):
            client.repeats = steps_before == 0
        event = client.heartbeat()
        self.act(client, steps_before)
        if fate in ("heard", "unheard", "heard and late"):
            answer = self.ask(event)
            if fate != "unheard":
                client.hear(answer)
        if fate in ("late", "heard and late"):
            self.late.append(event)
        self.act(client, steps_after)
        self.check()

    def act(self, client: Client, steps: int) -> None:
        for _ in range(steps):
            client.act(self.world.partition_counts)

    def ask(self, event: ConsumerGroupHeartbeat) -> ConsumerHeartbeatAnswer:
        answer = self.world.runner.ask(event, ConsumerHeartbeatAnswer)
        self.notice_who_is_gone()
        return answer

    def notice_who_is_gone(self) -> None:
        members = self.members()
        for client in self.alive:
            if isinstance(client, Client):
                client.is_expelled |= client.epoch != 0 and client.member_id not in members

    @rule(turns=st.lists(st.lists(moments, min_size=1), min_size=1, max_size=5))
    def move_in_turn(self, turns: list[list[Moment]]) -> None:
        for turn in turns:
            for position, client in enumerate(self.alive):
                self.move(client, turn[position % len(turn)])

    @rule(which=st.integers(0, 5))
    def arrive_late(self, which: int) -> None:
        if which < len(self.late):
            self.ask(self.late.pop(which))

    @rule(target=away, client=consumes(clients), crashes=st.booleans())
    def go(self, client: AnyClient, crashes: bool) -> AnyClient:
        self.alive.remove(client)
        if isinstance(client, ClassicClient):
            if not crashes:
                client.leave()
        elif not crashes:
            self.ask(client.goodbye(-2 if client.instance_id else -1))
        return client

    @rule(target=clients, client=consumes(away), kind=kinds)
    def come_back(self, client: AnyClient, kind: str) -> AnyClient:
        """A process starts again, perhaps with another protocol; a static one takes its own place."""
        return self.make(kind, client.topics, client.instance_id)

    @rule(by_ms=st.sampled_from([1, 5_000, 31_000, 61_000]))
    def wait(self, by_ms: int) -> None:
        self.world.runner.advance(by_ms)
        self.notice_who_is_gone()

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
                self.move(client, ("heard", 0, 2))
            if self.is_settled():
                return
            self.wait(2_000)
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
        if hasattr(self, "alive"):
            self.check()

    def check(self) -> None:
        members = self.members()
        held: Counter[tuple[UUID, int]] = Counter()
        for client in self.alive:
            knows = not client.is_expelled if isinstance(client, Client) else client.member_id in members
            held.update(client.held if knows else ())
        assert not [pair for pair, count in held.items() if count > 1]

    def teardown(self) -> None:
        if hasattr(self, "alive"):
            self.settle()


TestMixedGroups = MixedSimulation.TestCase
TestMixedGroups.settings = settings(max_examples=examples(50), stateful_step_count=25)
