"""Who is the controller. One transaction takes the office and raises the controller epoch.

Every write of a controller checks the version of the epoch's node, so once another has taken the office, what the one
before still sends is refused: nobody has to notice in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.coordination.interface import Change, Check, Create, Node, Remove, Replace, Store, Unwatch
from penstock.coordination.paths import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    CONTROLLER_EPOCH_STATE,
    CONTROLLER_STATE,
    ControllerEpoch,
    ControllerState,
)
from penstock.errors import PenstockError, Problem

# Each means that another has taken or left the office meanwhile.
_ATTEMPTS = 10


class Incumbent(NamedTuple):
    """`created` is the id of this one term: the same broker has another in its next one."""

    broker: int
    broker_epoch: int
    created: int


class Office(NamedTuple):
    """Of the controller itself. `version` is that of the epoch's node: check it in each commit."""

    epoch: int
    version: int


class ControllerElection:
    def __init__(self, store: Store, broker: int) -> None:
        self._store = store
        self._broker = broker

    def watch(self, look_again: Callable[[], None]) -> Unwatch:
        """After each change of the office, and whenever one may have been missed."""
        return self._store.watch(CONTROLLER, lambda _: look_again())

    async def incumbent(self) -> Incumbent | None:
        return _incumbent(await self._store.read(CONTROLLER))

    async def attempt(self, broker_epoch: int, *, instead_of: Incumbent | None = None) -> Office | None:
        """The office if this broker has it now; None if another one has.

        `instead_of`: this one is dead, by evidence, although its session is not over: its term ends in the same
        transaction. If another has the office by then, that one keeps it. After STORE_UNAVAILABLE call it again when
        the store is connected. What this session has won already, in a lost attempt or for a beginning that failed,
        is won anew: under one epoch two that number what they tell from the same number could not be told apart.
        """
        for _ in range(_ATTEMPTS):
            await self._store.sync()
            # In this order: whoever is in office after the epoch was read can not be in an earlier one than that.
            epoch_node, node = await self._store.read_many([CONTROLLER_EPOCH, CONTROLLER])
            if node is not None and node.owner != self._store.session_id and _incumbent(node) != instead_of:
                return None
            changes: list[Change] = [] if node is None else [Remove(CONTROLLER, node.version)]
            state = CONTROLLER_STATE.encode(ControllerState(self._broker, broker_epoch))
            changes.append(Create(CONTROLLER, state, ephemeral=True))
            epoch = 1 if epoch_node is None and node is None else _epoch(epoch_node) + 1
            data = CONTROLLER_EPOCH_STATE.encode(ControllerEpoch(epoch))
            changes.append(
                Create(CONTROLLER_EPOCH, data)
                if epoch_node is None
                else Replace(CONTROLLER_EPOCH, data, epoch_node.version)
            )
            try:
                versions = await self._store.commit(changes)
            except PenstockError as error:
                if error.problem is not Problem.STORE_CONFLICT:
                    raise
            else:
                return Office(epoch, versions[-1])
        return None

    async def resign(self, office: Office) -> None:
        """The next one need not wait for the end of a session. Nothing happens if another has the office already."""
        node = await self._store.read(CONTROLLER)
        if node is None or node.owner != self._store.session_id:
            return
        try:
            await self._store.commit([Check(CONTROLLER_EPOCH, office.version), Remove(CONTROLLER, node.version)])
        except PenstockError as error:
            if error.problem is not Problem.STORE_CONFLICT:
                raise


def _incumbent(node: Node | None) -> Incumbent | None:
    if node is None:
        return None
    state = CONTROLLER_STATE.decode(node.data, CONTROLLER)
    return Incumbent(state.broker, state.broker_epoch, node.created)


def _epoch(node: Node | None) -> int:
    """A controller without an epoch cannot be: both are made together."""
    if node is None:
        raise PenstockError(Problem.STORAGE_FAILED, f"{CONTROLLER_EPOCH} is missing although {CONTROLLER} is there")
    return CONTROLLER_EPOCH_STATE.decode(node.data, CONTROLLER_EPOCH).epoch
