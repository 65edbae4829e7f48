"""Long random walks of a small KIP-848 group: two or three members, a few partitions, and heartbeats that go astray.

Where a member could begin with a partition that is another's by now, or two wait for each other, it takes a dozen
steps in the right order to see it. Walks find that sooner than the simulation with everything in it.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.groups.consumer_client import KINDS, Client
from tests.groups.consumer_simulation import FATES, ConsumerSimulation
from tests.scale import examples

SUBSCRIPTIONS = [("orders",), ("orders",), ("bills", "orders")]


class Walk:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._simulation = ConsumerSimulation({"orders": 2, "bills": 1})
        self._kinds = self._random.sample(sorted(KINDS), self._random.randint(1, len(KINDS)))
        self._losses = self._random.choice([0.1, 0.3, 0.6])
        self._away: list[Client] = []
        for _ in range(self._random.randint(2, 3)):
            self._arrive()

    def go(self, steps: int) -> None:
        moves = [self._beat, self._deliver_late, self._change_members, self._resubscribe, self._change_the_world]
        for _ in range(steps):
            self._random.choices(moves, weights=[78, 8, 6, 5, 3])[0]()
            self._simulation.check()
        self._simulation.settle()

    def _beat(self) -> None:
        is_lucky = self._random.random() > self._losses
        fate = "heard" if is_lucky else self._random.choice(FATES)
        moment = (fate, self._random.randint(0, 2), self._random.randint(0, 2))
        self._simulation.beat(self._random.choice(self._simulation.alive), moment)

    def _deliver_late(self) -> None:
        self._simulation.deliver_late(self._random.randint(0, 4))

    def _arrive(self) -> None:
        member_id = self._simulation.fresh_id()
        instance_id = f"instance-{member_id}" if self._random.random() < 0.2 else None
        kind, topics = self._random.choice(self._kinds), self._random.choice(SUBSCRIPTIONS)
        self._simulation.add(KINDS[kind](member_id, topics, None, instance_id))

    def _change_members(self) -> None:
        alive = self._simulation.alive
        if len(alive) > 1 and self._random.random() < 0.6:
            self._leave(alive.pop(self._random.randrange(len(alive))))
        if len(alive) < 4:
            if self._away and self._random.random() < 0.4:
                self._come_back(self._away.pop())
            else:
                self._arrive()

    def _leave(self, client: Client) -> None:
        if self._random.random() < 0.8:
            will_be_back = client.instance_id is not None and self._random.random() < 0.7
            self._simulation.ask(client.goodbye(-2 if will_be_back else -1))
        self._away.append(client)

    def _come_back(self, client: Client) -> None:
        """A process that crashed does not know its old member id."""
        is_same = not client.held and self._random.random() < 0.5
        member_id = client.member_id if is_same else self._simulation.fresh_id()
        self._simulation.add(type(client)(member_id, client.topics, None, client.instance_id))

    def _resubscribe(self) -> None:
        self._random.choice(self._simulation.alive).topics = self._random.choice(SUBSCRIPTIONS)

    def _change_the_world(self) -> None:
        simulation = self._simulation
        match self._random.choice(["grow", "wait", "expire", "restart", "settle"]):
            case "grow":
                simulation.topics["orders"] = min(4, simulation.topics["orders"] + 1)
                simulation.world.set_topics(simulation.topics)
            case "wait":
                simulation.wait(5_000)
            case "expire":
                simulation.wait(46_000)
            case "restart":
                simulation.world.restart(compacted=self._random.random() < 0.5)
            case _:
                simulation.settle()


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 200))
def test_walks(seed: int, steps: int) -> None:
    Walk(seed).go(steps)
