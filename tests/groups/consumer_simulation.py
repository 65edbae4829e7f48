"""A KIP-848 group and the consumers around it, as simulations drive them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import strategies as st
from tests.groups.consumer_client import KINDS, Client, LibrdkafkaClient, pairs
from tests.groups.consumer_world import GROUP, World

from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer
from penstock.groups.core.consumer_state import ConsumerGroup

Moment = tuple[str, int, int]
kinds = st.sampled_from(sorted(KINDS))
FATES = ["unsent", "unheard", "late", "heard and late"]
moments = st.tuples(st.sampled_from(["heard", "heard", "heard", *FATES]), st.integers(0, 2), st.integers(0, 2))
"""What becomes of a heartbeat, and how far its sender gets with its work before the answer and after it."""


class ConsumerSimulation:
    """No partition may be in two hands at any moment; `settle` says that in quiet times everybody gets their share."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.world = World(topics)
        self.topics = dict(topics)
        self.alive: list[Client] = []
        self._late: list[ConsumerGroupHeartbeat] = []
        self._names_given = 0

    def group(self) -> ConsumerGroup | None:
        group = self.world.runner.machine.state.find(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def fresh_id(self) -> str:
        self._names_given += 1
        return f"member-{self._names_given}"

    def add(self, client: Client) -> Client:
        self.alive.append(client)
        return client

    def beat(self, client: Client, moment: Moment) -> None:
        fate, steps_before, steps_after = moment
        if isinstance(client, LibrdkafkaClient):
            client.repeats = steps_before == 0
        event = client.heartbeat()
        self._act(client, steps_before)
        if fate in ("heard", "unheard", "heard and late"):
            answer = self.ask(event)
            if fate != "unheard":
                client.hear(answer)
        if fate in ("late", "heard and late"):
            self._late.append(event)
        self._act(client, steps_after)
        self.check()

    def beat_all(self, turn: list[Moment]) -> None:
        for position, client in enumerate(self.alive):
            self.beat(client, turn[position % len(turn)])

    def _act(self, client: Client, steps: int) -> None:
        for _ in range(steps):
            client.act(self.world.partition_counts)

    def ask(self, event: ConsumerGroupHeartbeat) -> ConsumerHeartbeatAnswer:
        answer = self.world.runner.ask(event, ConsumerHeartbeatAnswer)
        self._notice_who_is_gone()
        return answer

    def deliver_late(self, which: int) -> None:
        """A heartbeat that was long under way, on a connection that its sender gave up: nobody hears the answer."""
        if which < len(self._late):
            self.ask(self._late.pop(which))

    def wait(self, by_ms: int) -> None:
        self.world.runner.advance(by_ms)
        self._notice_who_is_gone()

    def _notice_who_is_gone(self) -> None:
        group = self.group()
        for client in self.alive:
            client.is_expelled |= client.epoch != 0 and (group is None or client.member_id not in group.members)

    def settle(self) -> None:
        """Quiet times: everybody sends heartbeats, nothing gets lost. At worst a crashed member has to expire first."""
        for _ in range(30):
            for client in self.alive:
                # A late heartbeat can bring an old subscription back. That is a fault, but not one of ownership.
                client.has_failed |= not self._has_said_its_topics(client)
                self.beat(client, ("heard", 0, 2))
            if not self.alive or self._is_settled():
                break
            self.wait(5_000)
        if self.alive:
            assert self._is_settled(), "somebody waits for ever"
            self._check_everything_is_read()

    def _is_settled(self) -> bool:
        group = self.group()
        if group is None or group.state_name != "Stable":
            return False
        if group.members.keys() != {client.member_id for client in self.alive}:
            return False
        return all(
            client.owned == pairs(group.target_of(client.member_id)) and self._has_said_its_topics(client)
            for client in self.alive
        )

    def _has_said_its_topics(self, client: Client) -> bool:
        group = self.group()
        member = group.members.get(client.member_id) if group else None
        said = member.subscription if member else None
        return said is not None and (said.topic_names, said.topic_regex or None) == (
            tuple(sorted(client.topics)),
            client.regex,
        )

    def _check_everything_is_read(self) -> None:
        """Each partition of each existing topic that anybody subscribes to has one reader."""
        wanted = {name for client in self.alive for name in client.topics}
        for client in self.alive:
            wanted |= {None: set(), "orders.*": {"orders-eu", "orders-us"}}.get(client.regex, {"bills", "orders-eu"})
        everything = self.world.ids({name: range(count) for name, count in self.topics.items() if name in wanted})
        read = Counter(pair for client in self.alive for pair in client.owned)
        assert read == Counter(pairs(everything))

    def check(self) -> None:
        """No partition is in two hands, neither in truth nor in what the coordinator believes."""
        held = Counter(pair for client in self.alive if not client.is_expelled for pair in client.held)
        assert not [pair for pair, count in held.items() if count > 1], "two members may read from it"
        group = self.group()
        owned = Counter(
            pair
            for member in (group.members if group else {}).values()
            for pair in pairs(member.current.assigned) | pairs(member.current.pending_revocation)
        )
        assert not [pair for pair, count in owned.items() if count > 1]
