"""A leader with ten records, as tests drive it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.replication.test_following import log_of
from tests.simulation.log import Entry, SimulatedLog, plain

from penstock.coordination.paths import PartitionState
from penstock.errors import Refused
from penstock.replication.core.followers import LeadershipSettings
from penstock.replication.core.in_sync import Altered, Declined, Proposal, Unanswered
from penstock.replication.core.leadership import FollowerFetch, Leadership, Outcome
from penstock.storage.core.leader_epochs import EpochEnd

EPOCH = 5
LAG_MS = 10_000


def state(*isr: int, replicas: tuple[int, ...] = (1, 2, 3), epoch: int = EPOCH, min_isr: int = 1) -> PartitionState:
    return PartitionState(leader=1, leader_epoch=epoch, isr=isr, replicas=replicas, min_insync_replicas=min_isr)


class Leader:
    """Broker 1, with ten records of an earlier epoch."""

    def __init__(
        self,
        recorded: PartitionState,
        *,
        live: Mapping[int, int] | None = None,
        high_watermark: int = 0,
        max_messages: int | None = None,
    ) -> None:
        self.log: SimulatedLog = log_of(*[EPOCH - 2] * 10)
        self.log.begin_epoch(EPOCH)
        self.live = {1: 101, 2: 102, 3: 103} if live is None else dict(live)
        self.now_ms = 0
        settings = LeadershipSettings(replica_lag_time_max_ms=LAG_MS, replica_lag_max_messages=max_messages)
        self.core = Leadership(
            1,
            Altered(recorded, 7),
            settings,
            self.log,
            self.live,
            acknowledged_end=10,
            high_watermark=high_watermark,
            now_ms=0,
        )

    @property
    def high_watermark(self) -> int:
        return self.core.high_watermark

    def write(self, count: int = 1) -> bool:
        for _ in range(count):
            self.log.add(Entry(EPOCH, plain("a")))
        return self.core.advance(self.log.end_offset, self.now_ms)

    def ask(
        self, replica: int, offset: int, *, epoch: int = EPOCH, broker_epoch: int | None = None, last: int = -1
    ) -> Outcome | EpochEnd | Refused:
        life = 100 + replica if broker_epoch is None else broker_epoch
        return self.core.on_fetch(FollowerFetch(replica, life, epoch, offset, last, 0), self.now_ms)

    def fetch(self, replica: int, offset: int, *, broker_epoch: int | None = None) -> Proposal | None:
        outcome = self.ask(replica, offset, broker_epoch=broker_epoch)
        assert isinstance(outcome, Outcome)
        return outcome.proposal

    def wait(self, ms: int) -> Proposal | None:
        self.now_ms += ms
        return self.core.tick(self.now_ms).proposal

    def answer(self, proposal: Proposal | None, answer: Altered | Declined | Unanswered) -> Proposal | None:
        assert proposal is not None
        return self.core.on_answer(proposal, answer, self.now_ms).proposal


def joining(leader: Leader, replica: int) -> Proposal:
    """It has everything, so it is proposed."""
    proposal = leader.fetch(replica, leader.log.end_offset)
    assert proposal is not None
    return proposal
