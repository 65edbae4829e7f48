"""What a controller sees to without being asked: internal topics get the replicas that they should have as brokers

join, and brokers that are being drained become empty whatever has happened meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from penstock.clock import Clock, Timer
from penstock.cluster.controller import ActiveController
from penstock.cluster.core.drain import drain
from penstock.cluster.core.image import INTERNAL_TOPICS, Image
from penstock.cluster.core.moves import INTERNAL_REPLICATION_FACTOR, raise_replication
from penstock.cluster.operations import Operations
from penstock.cluster.tasks import Tasks
from penstock.cluster.topics import ConfigChange, Topics, internal_config
from penstock.errors import PenstockError, Refused
from penstock.units import SECOND_MS

logger = logging.getLogger(__name__)

# Often enough that nobody waits for it, seldom enough that looking through all partitions costs nothing.
_INTERVAL_MS = 2 * SECOND_MS


class Upkeep:
    """For one term of office."""

    def __init__(
        self, controller: ActiveController, image: Image, topics: Topics, operations: Operations, clock: Clock
    ) -> None:
        self._controller = controller
        self._image = image
        self._topics = topics
        self._operations = operations
        self._clock = clock
        self._tasks = Tasks("the controller's upkeep")
        self._timer: Timer | None = None
        controller.when_over(self.close)
        self._arm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.cancel()

    def _arm(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + _INTERVAL_MS, self._begin)

    def _begin(self) -> None:
        if not self._controller.is_over:
            self._tasks.spawn(self._run())

    async def _run(self) -> None:
        try:
            if len(self._image.live_epochs) > 1:
                await self._raise_internal()
                await self._go_on_draining()
        except PenstockError as error:
            logger.warning("controller.upkeep.failed", extra={"why": str(error)})
        if not self._controller.is_over:
            self._arm()

    async def _raise_internal(self) -> None:
        brokers = self._topics.brokers()
        moves = raise_replication(brokers, self._operations.placed(), INTERNAL_TOPICS).moves
        if moves:
            logger.info("internal.topics.raised", extra={"partitions": len(moves)})
            self._note(await self._operations.move(moves))
        for name in INTERNAL_TOPICS:
            topic = self._image.topic(name)
            if topic is None or any(len(each.isr) < INTERNAL_REPLICATION_FACTOR for each in topic.partitions):
                continue
            wanted = internal_config(topic.config, INTERNAL_REPLICATION_FACTOR)
            if wanted != topic.config:
                changed = await self._topics.configure(name, _always(wanted), validate_only=False)
                self._note(changed if isinstance(changed, Refused) else None)

    async def _go_on_draining(self) -> None:
        for broker in self._topics.brokers():
            if not broker.draining or not broker.replicas:
                continue
            # Seconds, in a large cluster: an operator may have thought better of it by then.
            plan = await asyncio.to_thread(drain, self._topics.brokers(), self._operations.placed(), broker.node_id)
            state = self._operations.broker_state(broker.node_id)
            if plan.moves and not isinstance(state, Refused) and state.draining:
                self._note(await self._operations.move(plan.moves, state.draining_rate))

    def _note(self, refused: Refused | None) -> None:
        if refused is not None:
            logger.warning("controller.upkeep.refused", extra={"why": refused.text})


def _always(config: Mapping[str, str]) -> ConfigChange:
    return lambda _: config
