"""Leaders whose logs have failed or have a hole make room: the controller is asked for an ISR without them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from penstock.clock import Clock
from penstock.cluster.core.messages import IsrWish
from penstock.cluster.core.view import PartitionNode
from penstock.coordination.paths import NO_EPOCH
from penstock.errors import Refused
from penstock.later import Later
from penstock.replication.partition import Partition
from penstock.storage.holes import first_fresh_hole
from penstock.units import SECOND_MS

logger = logging.getLogger(__name__)

_RETRY_MS = SECOND_MS


class IsrChanges(Protocol):
    """The way to the controller (AlterPartition)."""

    def alter(self, wish: IsrWish) -> Later[PartitionNode | Refused]:
        """Always answered, STORE_UNAVAILABLE or REQUEST_TIMED_OUT if nobody knows what has become of it."""


class Resignations:
    """Every member of the ISR has all that was committed, so whoever of them is elected loses nothing. Asks until there

    is another leader; while nobody else is in sync and alive, there is nobody to ask for.
    """

    def __init__(self, node_id: int, isr_changes: IsrChanges, live: Mapping[int, int], clock: Clock) -> None:
        """`live` is shared with the owner: brokers that may be in an ISR."""
        self._node_id = node_id
        self._isr_changes = isr_changes
        self._live = live
        self._clock = clock
        self._under_way: set[Partition] = set()
        # While the session with the store is in doubt.
        self.is_suspended = False

    def resign(self, partition: Partition) -> None:
        """It should not lead; it may, by what is recorded, or not."""
        if partition not in self._under_way and self._should_not_lead(partition):
            self._under_way.add(partition)
            where = {"topic": partition.topic, "partition": partition.index}
            why = partition.log.failure or "records are missing that a power cut took, or that are damaged"
            logger.warning("partition.resigns", extra={**where, "why": why})
            self._ask(partition)

    def _should_not_lead(self, partition: Partition) -> bool:
        """It does, as the controller says. Of a hole the end may be that nobody else can lead."""
        is_unfit = partition.log.failure is not None or first_fresh_hole(partition.log) is not None
        return is_unfit and partition.state.leader == self._node_id and not partition.is_gone

    def _ask(self, partition: Partition) -> None:
        if not self._should_not_lead(partition):
            self._under_way.discard(partition)
            return
        state = partition.state
        others = tuple((r, NO_EPOCH) for r in state.isr if r != self._node_id and r in self._live)
        if not others or self.is_suspended:
            self._later(partition)
            return
        wish = IsrWish(partition.topic_id, partition.index, state.leader_epoch, partition.version, others)
        asked = self._isr_changes.alter(wish)
        # Also when it was taken: the state that says so is on its way.
        asked.when_done(lambda _: self._later(partition))

    def _later(self, partition: Partition) -> None:
        self._clock.call_at(self._clock.now_ms() + _RETRY_MS, lambda: self._ask(partition))
