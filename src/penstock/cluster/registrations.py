"""Who is registered, watched for the controller."""

from __future__ import annotations

import logging
from asyncio import Lock
from collections.abc import Callable, Mapping

from penstock.cluster.core.events import BrokerGone, BrokerRegistered
from penstock.cluster.core.view import BrokerView
from penstock.cluster.reading import read_registrations
from penstock.cluster.tasks import Tasks
from penstock.coordination.interface import Store
from penstock.coordination.paths import REGISTRATIONS
from penstock.errors import PenstockError, Problem

logger = logging.getLogger(__name__)

Change = BrokerGone | BrokerRegistered


class RegistrationWatch:
    """`tell` gets what has changed against what is known, while nobody else changes the store."""

    def __init__(
        self,
        store: Store,
        turn: Lock,
        known: Callable[[], Mapping[int, BrokerView]],
        tell: Callable[[list[Change]], None],
    ) -> None:
        self._store = store
        self._turn = turn
        self._known = known
        self._tell = tell
        self._tasks = Tasks("the watch of registrations")
        self._looking = False
        self._unwatch = store.watch(REGISTRATIONS, lambda _: self._look())

    def close(self) -> None:
        self._unwatch()
        self._tasks.cancel()

    def _look(self) -> None:
        if not self._looking:
            self._looking = True
            self._tasks.spawn(self._read())

    async def _read(self) -> None:
        async with self._turn:
            # What changes from here on is told again.
            self._looking = False
            try:
                found = await read_registrations(self._store)
            except PenstockError as error:
                if error.problem is not Problem.STORE_UNAVAILABLE:
                    logger.error("controller.registrations.unreadable", extra={"why": str(error)})
                # With the next connection everything is looked at again.
                return
            known = self._known()
            changes: list[Change] = [
                BrokerGone(node_id, broker.broker_epoch)
                for node_id, broker in known.items()
                if broker.registration is not None and node_id not in found
            ]
            changes += [
                BrokerRegistered(node_id, broker_epoch, registration)
                for node_id, (broker_epoch, registration) in found.items()
                if node_id not in known or known[node_id].broker_epoch != broker_epoch
            ]
            if changes:
                self._tell(changes)
