"""KIP-848 groups under everything that can happen to their members, driven by Hypothesis.

Heartbeats and answers get lost, heartbeats arrive when their sender has long gone on over another connection; members
crash, stay away, leave, come back, change their minds; topics come, grow and go; the coordinator restarts. No partition
may be in two hands at once, and in quiet times everybody gets their share.
"""

from __future__ import annotations

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
from tests.groups.consumer_client import KINDS, Client
from tests.groups.consumer_simulation import ConsumerSimulation, Moment, kinds, moments
from tests.scale import examples

from penstock.groups.core.consumer_state import ConsumerGroup

TOPICS = ["orders-eu", "orders-us", "bills"]
topic_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4), min_size=1)
names = st.sampled_from([("orders-eu",), ("orders-eu", "orders-us"), tuple(TOPICS), tuple(TOPICS)])
patterns = st.sampled_from([None, "orders.*", "bills|orders-eu"])
turns = st.lists(st.lists(moments, min_size=1, max_size=4), min_size=1, max_size=3)


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


class Consumers(RuleBasedStateMachine):
    clients: Bundle[Client] = Bundle("clients")
    away: Bundle[Client] = Bundle("away")
    simulation: ConsumerSimulation

    @initialize(
        target=clients,
        topics=topic_counts,
        subscriptions=st.lists(st.tuples(kinds, names), min_size=1, max_size=3),
    )
    def start(
        self, topics: dict[str, int], subscriptions: list[tuple[str, tuple[str, ...]]]
    ) -> MultipleResults[Client]:
        self.simulation = ConsumerSimulation(topics)
        self.epoch = 0
        add, fresh_id = self.simulation.add, self.simulation.fresh_id
        early = [add(KINDS[kind](fresh_id(), topics, None)) for kind, topics in subscriptions]
        self.simulation.settle()
        return multiple(*early)

    @rule(target=clients, kind=kinds, topics=names, regex=patterns, is_static=st.booleans())
    def arrive(self, kind: str, topics: tuple[str, ...], regex: str | None, is_static: bool) -> Client:
        member_id = self.simulation.fresh_id()
        instance_id = f"instance-{member_id}" if is_static else None
        return self.simulation.add(KINDS[kind](member_id, topics, regex, instance_id))

    @rule(client=clients, moment=moments)
    def beat(self, client: Client, moment: Moment) -> None:
        self.simulation.beat(client, moment)

    @rule(turns=turns)
    def beat_in_turn(self, turns: list[list[Moment]]) -> None:
        """Most of what happens is this; one at a time Hypothesis would rarely get far."""
        for turn in turns:
            self.simulation.beat_all(turn)

    @rule(which=st.integers(0, 5))
    def arrive_late(self, which: int) -> None:
        self.simulation.deliver_late(which)

    @rule(target=away, client=consumes(clients), how=st.sampled_from(["crash", "leave", "leave for a while"]))
    def go(self, client: Client, how: str) -> Client:
        self.simulation.alive.remove(client)
        if how != "crash":
            epoch = -2 if how == "leave for a while" and client.instance_id else -1
            self.simulation.ask(client.goodbye(epoch))
        return client

    @rule(target=clients, client=consumes(away), same_id=st.booleans())
    def come_back(self, client: Client, same_id: bool) -> Client:
        # A process that crashed is not restarted under its old member id: it would not know it.
        member_id = client.member_id if same_id and not client.held else self.simulation.fresh_id()
        return self.simulation.add(type(client)(member_id, client.topics, client.regex, client.instance_id))

    @rule(client=clients, topics=names, regex=patterns)
    def resubscribe(self, client: Client, topics: tuple[str, ...], regex: str | None) -> None:
        client.topics, client.regex = topics, regex

    @rule(topics=topic_counts)
    def change_topics(self, topics: dict[str, int]) -> None:
        simulation = self.simulation
        simulation.topics = {name: max(count, simulation.topics.get(name, 0)) for name, count in topics.items()}
        simulation.world.set_topics(simulation.topics)

    @rule(by_ms=st.sampled_from([1, 5_000, 30_000, 46_000]))
    def wait(self, by_ms: int) -> None:
        self.simulation.wait(by_ms)

    @rule(compacted=st.booleans())
    def restart(self, compacted: bool) -> None:
        before = durable(self.simulation.group())
        self.simulation.world.restart(compacted=compacted)
        assert durable(self.simulation.group()) == before

    @rule()
    def settle(self) -> None:
        self.simulation.settle()

    @invariant()
    def no_partition_is_in_two_hands(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.check()

    @invariant()
    def epochs_only_grow(self) -> None:
        if not hasattr(self, "simulation"):
            return
        group = self.simulation.group()
        if group is None:
            # An empty group without offsets is forgotten after a while.
            self.epoch = 0
        else:
            assert group.epoch >= self.epoch
            assert group.assignment_epoch <= group.epoch
            assert all(member.epoch <= group.epoch for member in group.members.values())
            self.epoch = group.epoch

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.settle()


TestConsumers = Consumers.TestCase
TestConsumers.settings = settings(max_examples=examples(60), stateful_step_count=40)
