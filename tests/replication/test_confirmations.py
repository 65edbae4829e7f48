"""A leader is certain that it still leads when all who could lead instead have asked it for more, and not before."""

from __future__ import annotations

from msgspec.structs import replace
from tests.simulation.log import SimulatedLog

from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.confirmations import PATIENCE_MS, Confirmations
from penstock.replication.core.followers import LeadershipSettings
from penstock.replication.core.in_sync import Altered
from penstock.replication.core.leadership import Leadership

STATE = PartitionState(1, 1, (1, 2, 3), (1, 2, 3), min_insync_replicas=2)


class World:
    """Broker 1 leads."""

    def __init__(self, state: PartitionState = STATE) -> None:
        self.hurried = 0
        self.confirmations = Confirmations(self._hurry)
        self.leadership = Leadership(
            1,
            Altered(state, 5),
            LeadershipSettings(),
            SimulatedLog(),
            {},
            acknowledged_end=0,
            high_watermark=0,
            now_ms=0,
        )

    def _hurry(self) -> None:
        self.hurried += 1

    def ask(self) -> Later[Refused | None]:
        return self.confirmations.ask(self.leadership, 0)

    def fetched(self, *replicas: int, connection: int = 1) -> None:
        for replica in replicas:
            self.confirmations.fetched(self.leadership, replica, connection)

    def learn(self, *isr: int) -> None:
        state, version = self.leadership.recorded
        self.leadership.on_state(replace(state, isr=isr), version + 1, 0)
        self.confirmations.look(self.leadership)


def test_all_in_sync_must_fetch_twice() -> None:
    world = World()
    asked = world.ask()
    assert world.hurried == 1
    world.fetched(2, 3, 2)
    assert not asked.done
    assert (world.confirmations.awaits(2), world.confirmations.awaits(3)) == (False, True)
    world.fetched(3)
    assert asked.result() is None
    assert not world.confirmations.awaits(3)


def test_two_fetches_on_two_connections_may_both_be_old() -> None:
    world = World()
    asked = world.ask()
    world.fetched(2, 2, 3, connection=1)
    world.fetched(3, connection=2)
    assert not asked.done
    world.fetched(3, connection=2)
    assert asked.done


def test_what_came_before_it_was_asked_says_nothing() -> None:
    world = World()
    world.fetched(2, 3, 2, 3)
    first = world.ask()
    world.fetched(2, 3)
    second, third = world.ask(), world.ask()
    world.fetched(2, 3)
    assert (first.done, second.done, third.done) == (True, False, False)
    assert world.hurried == 4, "those who were answered for the first must fetch again for the others"
    world.fetched(2, 3, 2, 3)
    assert (second.result(), third.result()) == (None, None)


def test_who_leaves_the_isr_is_not_waited_for() -> None:
    world = World()
    asked = world.ask()
    world.fetched(2, 2)
    world.learn(1, 2)
    assert asked.result() is None


def test_below_min_isr_nobody_is_certain() -> None:
    """Those who left it may be elected (KIP-966)."""
    world = World(replace(STATE, isr=(1,)))
    asked = world.ask()
    world.fetched(2, 2, 3, 3)
    assert not asked.done
    world.learn(1, 2)
    assert asked.done


def test_alone_it_is_certain_at_once() -> None:
    world = World(PartitionState(1, 1, (1,), (1,)))
    assert world.ask().result() is None
    assert world.hurried == 0


def test_nobody_waits_for_ever() -> None:
    world = World()
    late, resigned = world.ask(), world.ask()
    world.confirmations.expire(PATIENCE_MS - 1)
    assert not late.done
    world.confirmations.expire(PATIENCE_MS)
    refused = late.result()
    assert refused is not None and refused.problem is Problem.COORDINATOR_NOT_AVAILABLE
    assert resigned.done
    deposed = world.ask()
    world.confirmations.refuse(Refused(Problem.NOT_LEADER))
    assert deposed.result() == Refused(Problem.NOT_LEADER)
