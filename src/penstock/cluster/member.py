"""This broker as a member of its cluster: registered while it has a session, and a candidate for the controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from penstock.cluster.controller import ActiveController
from penstock.cluster.metadata import Metadata, connected, session_change
from penstock.cluster.patience import patiently
from penstock.coordination.controller_election import ControllerElection, Incumbent, Office
from penstock.coordination.identity import check_identity
from penstock.coordination.interface import Remove, SessionState, Store
from penstock.coordination.paths import NO_EPOCH, NO_LEADER, Registration, registration_path
from penstock.coordination.registration import Answers, IdTaken, register
from penstock.errors import PenstockError, Problem
from penstock.later import Later

logger = logging.getLogger(__name__)

# Between two looks at a store that holds what it should not.
_PAUSE_S = 5.0
# A store that stays out of reach for so long in the middle of a start is somebody's business.
START_PATIENCE_S = 30.0


class TakeOffice(Protocol):
    def __call__(self, office: Office) -> Awaitable[ActiveController]:
        """Has begun to decide when it is done."""


@dataclass
class Standing:
    """What this broker has of its session."""

    broker_epoch: int = NO_EPOCH
    session_id: int | None = None


class Member:
    """One task looks at the session, the registration and the office, again whenever any of them may have changed."""

    def __init__(
        self, store: Store, node_id: int, metadata: Metadata, take_office: TakeOffice, answers: Answers
    ) -> None:
        self._store = store
        self._answers = answers
        self._node_id = node_id
        self._registration: Registration | None = None
        self._metadata = metadata
        self._take_office = take_office
        self._election = ControllerElection(store, node_id)
        self._standing = Standing()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unwatch: list[Callable[[], None]] = []
        # By evidence, the newest epoch in which each broker was found dead, although its session may not be over.
        self._found_dead: dict[int, int] = {}
        self._incumbent: Incumbent | None = None
        self.controller: ActiveController | None = None
        self._when_session: list[Callable[[bool], None]] = []
        self._when_lost: list[Callable[[], None]] = []
        # Another broker has the id: this process is not a member any more and has to end.
        self.expelled: Later[PenstockError] = Later()

    @property
    def broker_epoch(self) -> int:
        """NO_EPOCH while it is not registered."""
        return self._standing.broker_epoch

    def when_session_changes(self, callback: Callable[[bool], None]) -> None:
        """Called with whether the session is suspended or over."""
        self._when_session.append(callback)

    def when_session_lost(self, callback: Callable[[], None]) -> None:
        """Called when nothing that this broker led is its own any more."""
        self._when_lost.append(callback)

    async def start(self, registration: Registration) -> None:
        """Registers, and has looked whether there is a controller. Raises PenstockError when that cannot be."""
        self._registration = registration
        self._unwatch = [
            self._store.watch_session(self._session_changed),
            self._election.watch(self._changed.set),
            # Nobody tells a broker that it has none: whoever has none is not told anything.
            self._store.watch(registration_path(self._node_id), lambda _: self._changed.set()),
        ]
        self._metadata.when_brokers_change(self._changed.set)
        await patiently(self._store, self._begin, START_PATIENCE_S)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _begin(self) -> None:
        if self._standing.session_id != self._store.session_id:
            await self._register()
        await self._look_at_office()

    async def close(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        controller, self.controller = self.controller, None
        if controller is not None and not controller.is_over:
            controller.close()
            try:
                # Not longer than it is worth: without it the session ends the office.
                async with asyncio.timeout(1):
                    await self._election.resign(controller.office)
            except (PenstockError, TimeoutError) as error:
                logger.warning("controller.resign.failed", extra={"why": str(error)})

    def broker_died(self, broker: int, broker_epoch: int) -> None:
        """Evidence, never a time-out. Whether it has the office is looked up then: this one may not know it yet."""
        self._found_dead[broker] = broker_epoch
        self._changed.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            # At once: whoever reads what this broker may do must not find yesterday's answer.
            self._end_life()
        for callback in self._when_session:
            callback(state is not SessionState.CONNECTED)
        if state is SessionState.CONNECTED:
            self._metadata.load()
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                if self._store.session_state is SessionState.CONNECTED:
                    await self._look()
            except IdTaken as error:
                logger.error(
                    "broker.id.taken", extra={"why": str(error), "do": "stopping: see which of the two goes on"}
                )
                self.expelled.complete(error)
                return
            except PenstockError as error:
                # STORE_UNAVAILABLE comes to an end by itself; anything else needs somebody, who finds it in the log.
                logger.warning("member.look.failed", extra={"why": str(error)})
                if error.problem is not Problem.STORE_UNAVAILABLE:
                    await session_change(self._store, _PAUSE_S)
                await connected(self._store)
                continue
            await self._changed.wait()

    async def _look(self) -> None:
        # Before anything is written there.
        await check_identity(self._store, self._metadata.cluster_id)
        own = self._metadata.broker_row(self._node_id)
        if own is not None and own.is_live and own.broker_epoch == self.broker_epoch and self._registration is not None:
            # What this process found at its start has been judged. Whatever comes now, it has all that it had.
            self._registration = replace(self._registration, clean=True)
        if self._standing.session_id != self._store.session_id:
            await self._register()
        elif own is not None and own.broker_epoch == self.broker_epoch <= own.fenced_epoch:
            logger.warning("broker.fenced", extra={"broker_epoch": self.broker_epoch, "do": "registering anew"})
            self._end_life()
            await self._unregister()
            await self._register()
        else:
            await self._look_at_registration()
        await self._look_at_office()

    async def _look_at_registration(self) -> None:
        """It may have gone, or be another's, while the session lives."""
        node = await self._store.read(registration_path(self._node_id))
        if node is None or (node.owner, node.created) != (self._standing.session_id, self.broker_epoch):
            logger.warning(
                "broker.registration.gone", extra={"broker_epoch": self.broker_epoch, "do": "registering anew"}
            )
            self._end_life()
            await self._register()

    def _end_life(self) -> None:
        """Of the epoch in which it was registered: nothing that was given to that is its own any more."""
        self._standing = Standing()
        self._metadata.set_own_epoch(NO_EPOCH)
        for lost in self._when_lost:
            lost()
        if self.controller is not None:
            self.controller.close()

    async def _register(self) -> None:
        assert self._registration is not None
        broker_epoch = await register(self._store, self._node_id, self._registration, self._answers)
        self._standing = Standing(broker_epoch, self._store.session_id)
        self._metadata.set_own_epoch(broker_epoch)
        logger.info("broker.registered", extra={"broker_epoch": broker_epoch})

    async def _unregister(self) -> None:
        path = registration_path(self._node_id)
        node = await self._store.read(path)
        if node is not None and node.owner == self._store.session_id:
            await self._store.commit([Remove(path, node.version)])

    async def _look_at_office(self) -> None:
        controller = self.controller
        if controller is not None and controller.is_over:
            self.controller = controller = None
        self._incumbent = await self._election.incumbent()
        dead = self._incumbent if self._is_dead(self._incumbent) else None
        is_vacant = self._incumbent is None or dead is not None
        is_mine = self._incumbent is not None and self._incumbent.broker == self._node_id
        if controller is None and (is_vacant or is_mine):
            office = await self._election.attempt(self.broker_epoch, instead_of=dead)
            self._incumbent = await self._election.incumbent()
            if office is not None:
                await self._begin_office(office)
        elif controller is not None and not is_mine:
            controller.close()
            self.controller = None
            self._changed.set()
        if self._incumbent is not None and self.controller is None:
            self._metadata.take_controller(self._incumbent.broker)
        elif self._incumbent is None:
            self._metadata.take_controller(NO_LEADER)

    def _is_dead(self, incumbent: Incumbent | None) -> bool:
        return incumbent is not None and self._found_dead.get(incumbent.broker) == incumbent.broker_epoch

    async def _begin_office(self, office: Office) -> None:
        logger.info("controller.begins", extra={"controller_epoch": office.epoch})
        controller = await self._take_office(office)
        controller.when_over(self._changed.set)
        self.controller = controller
        if controller.is_over:
            self._changed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            text = "membership in the cluster met a bug"
            asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})
