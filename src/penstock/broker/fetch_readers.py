"""Who fetches: a consumer, from the leader or from a replica near it, or a follower, which acknowledges by it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.fetch_limits import FollowerLimits
from penstock.broker.fetch_read import NO_REPLICA, Row
from penstock.cluster.core.image import Image
from penstock.errors import Problem, Refused
from penstock.replication.core.closest import closest_replica
from penstock.replication.core.leadership import FollowerFetch
from penstock.replication.partition import NOT_LEADING, Partition
from penstock.replication.replicas import epoch_problem
from penstock.storage.core.leader_epochs import EpochEnd


class ConsumerReader:
    """One that says in which rack it is reads from a replica there (KIP-392)."""

    is_follower = False
    limits = None

    def __init__(self, image: Image, rack: str, *, reads_committed: bool) -> None:
        """`reads_committed`: only what belongs to no transaction or to one that was committed."""
        self._image = image
        self._rack = rack
        self.reads_committed = reads_committed

    def admit(self, partition: Partition, row: Row) -> Refused | None:
        if (refused := epoch_problem(partition, row.wanted.current_leader_epoch)) is not None:
            return refused
        if partition.leadership is not None:
            if self._rack:
                row.preferred_replica = self._closest(partition, row.wanted.fetch_offset)
            return None
        if not partition.may_be_read(as_closest=bool(self._rack)):
            return NOT_LEADING
        if row.wanted.fetch_offset > partition.log.end_offset:
            # The leader has more; it comes here too. `:d` as in `check_timestamp`.
            return Refused(Problem.OFFSET_NOT_AVAILABLE, f"offset {row.wanted.fetch_offset:d} is not here yet")
        return None

    def _closest(self, partition: Partition, fetch_offset: int) -> int:
        assert partition.leadership is not None
        racks = {broker.node_id: broker.rack for broker in self._image.brokers.values() if broker.is_live}
        found = closest_replica(partition.leadership, self._rack, racks, fetch_offset)
        return NO_REPLICA if found is None else found


class FollowerReader:
    """Its fetch counts once, whatever is read for it how often."""

    is_follower = True
    reads_committed = False

    def __init__(
        self, replica: int, broker_epoch: int, connection: int, limits: FollowerLimits | None, now_ms: int
    ) -> None:
        self.limits = limits
        self._replica = replica
        self._broker_epoch = broker_epoch
        self._connection = connection
        self._now_ms = now_ms
        self._is_told = False
        # Somebody waits for its next fetch.
        self.is_urgent = False

    def told(self) -> None:
        """All leaders have been told of the fetch; what is read from now on is only read."""
        self._is_told = True

    def has_more_by_now(self, rows: Iterable[Row]) -> bool:
        """Telling one leader can make others append, or await this follower's next fetch: those of rows that had been

        read by then, and that nobody watches yet.
        """
        has_more = False
        for row in rows:
            partition = row.partition
            if partition is None or row.is_held:
                continue
            if partition.confirmations.rounds:
                self.is_urgent |= partition.confirmations.awaits(self._replica)
            has_more |= partition.log.end_offset != row.wanted.fetch_offset
        return has_more

    def admit(self, partition: Partition, row: Row) -> Refused | None:
        wanted = row.wanted
        if self._is_told:
            return epoch_problem(partition, wanted.current_leader_epoch) or (
                NOT_LEADING if partition.leadership is None else None
            )
        fetch = FollowerFetch(
            self._replica,
            self._broker_epoch,
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
            self._connection,
        )
        outcome = partition.on_follower_fetch(fetch, self._now_ms)
        if partition.confirmations.rounds:
            self.is_urgent |= partition.confirmations.awaits(self._replica)
        if isinstance(outcome, EpochEnd):
            row.parting = outcome
            return None
        if outcome is not None and outcome.problem is Problem.OFFSET_OUT_OF_RANGE:
            # So that it knows where to begin: see replication/follower_logs.py.
            row.start_offset, row.high_watermark = partition.log.start_offset, partition.log.end_offset
        return outcome
