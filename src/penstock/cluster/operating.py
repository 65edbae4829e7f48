"""Answers to an operator: how the cluster is, what should move, and how far it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import msgspec

from penstock.cluster.controller import ActiveController
from penstock.cluster.core.drain import DrainRefused, drain
from penstock.cluster.core.events import ReassignmentWish
from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.image import Image
from penstock.cluster.core.leader_balance import balance_leaders
from penstock.cluster.core.moves import fair_share, rebalance
from penstock.cluster.core.operator_messages import (
    AskPlan,
    AskProgress,
    AskStatus,
    Elect,
    Execute,
    OperatorReply,
    OperatorRequest,
    SetDrained,
    SetThrottle,
)
from penstock.cluster.core.placement import check_reassignment
from penstock.cluster.core.plan import Move, PlacedPartition, Plan, Unmoved
from penstock.cluster.core.progress import progress
from penstock.cluster.core.reassignment import target_of
from penstock.cluster.core.status import status_of
from penstock.cluster.core.view import PartitionKey
from penstock.cluster.operations import Operations, Rows, wish_of
from penstock.cluster.replica_sizes import Held, ReplicaSizes
from penstock.cluster.topics import Topics
from penstock.coordination.paths import PartitionState
from penstock.errors import PenstockError, Problem, Refused

_NOT_CONTROLLER = Refused(Problem.NOT_CONTROLLER, "this broker is not the controller")
# Not worth a word where an election was asked for.
_FINE = frozenset({Problem.ELECTION_NOT_NEEDED})


class Operating:
    """Everything is refused with NOT_CONTROLLER where another broker decides."""

    def __init__(
        self,
        image: Image,
        topics: Topics,
        operations: Operations,
        sizes: ReplicaSizes,
        controller: Callable[[], ActiveController | None],
    ) -> None:
        self._image = image
        self._topics = topics
        self._operations = operations
        self._sizes = sizes
        self._controller = controller

    async def answer(self, request: OperatorRequest) -> OperatorReply:
        if self._controller() is None:
            return OperatorReply.refusing(_NOT_CONTROLLER)
        match request:
            case AskStatus():
                return await self._status()
            case AskPlan():
                return await self._plan(request)
            case Execute(moves, rate):
                return await self._execute(moves, rate)
            case SetDrained(node_id, True, rate):
                return await self._drain(node_id, rate)
            case SetDrained(node_id):
                return await self._end_drain(node_id)
            case SetThrottle(rate):
                return await self._throttle(rate)
            case AskProgress(moves):
                return await self._progress(moves)
            case Elect(partitions):
                return await self._elect(partitions)
        assert_never(request)

    async def _status(self) -> OperatorReply:
        held = await self._sizes.ask()
        # It may have lost the office while it asked.
        if self._controller() is None:
            return OperatorReply.refusing(_NOT_CONTROLLER)
        draining = {broker.node_id for broker in self._topics.brokers() if broker.draining}
        sizes = {node_id: sum(each.sizes.values()) for node_id, each in held.items()}
        free = {node_id: each.free_bytes for node_id, each in held.items() if each.free_bytes is not None}
        return OperatorReply(status=status_of(self._image, draining, sizes, free))

    async def _plan(self, request: AskPlan) -> OperatorReply:
        held = await self._sizes.ask()
        if self._controller() is None:
            return OperatorReply.refusing(_NOT_CONTROLLER)
        brokers = [replace(broker, free_bytes=_free_bytes(held, broker)) for broker in self._topics.brokers()]
        largest = _largest(held)
        placed = [
            replace(each, size_bytes=largest.get((each.topic, each.partition), 0)) for each in self._operations.placed()
        ]
        try:
            # Seconds, in a large cluster.
            plan = await asyncio.to_thread(_planned, request, brokers, placed)
        except DrainRefused as refused:
            return OperatorReply.refusing(Refused.by(refused), refused.unmoved)
        except PenstockError as error:
            return OperatorReply.refusing(Refused.by(error))
        return OperatorReply(plan=plan)

    async def _execute(self, moves: Sequence[Move], throttled_rate: int) -> OperatorReply:
        """What does not fit any more is refused, the rest begins."""
        brokers = self._topics.brokers()
        wishes, refused = [], []
        for move in moves:
            if reason := self._why_not(move, brokers):
                refused.append(Unmoved(move.topic, move.partition, reason))
            else:
                wishes.append(wish_of(move, throttled_rate))
        return await self._reassign(wishes, refused)

    def _why_not(self, move: Move, brokers: Sequence[Broker]) -> str:
        if reason := self._operations.changed_since(move):
            return reason
        try:
            check_reassignment(brokers, move.before, move.replicas)
        except PenstockError as error:
            return str(error)
        return ""

    async def _drain(self, node_id: int, throttled_rate: int) -> OperatorReply:
        planned = await self._plan(AskPlan("drain", node_id))
        if planned.plan is None:
            return planned
        refused = await self._operations.set_draining(node_id, True, throttled_rate).wait()
        if refused is not None:
            return OperatorReply.refusing(refused)
        moves = [move for move in planned.plan.moves if not self._operations.changed_since(move)]
        wishes = [wish_of(move, throttled_rate) for move in moves]
        return msgspec.structs.replace(await self._reassign(wishes, ()), plan=planned.plan)

    async def _end_drain(self, node_id: int) -> OperatorReply:
        refused = await self._operations.set_draining(node_id, False).wait()
        if refused is not None:
            return OperatorReply.refusing(refused)
        under_way = self._operations.reassignments(None)
        if isinstance(under_way, Refused):
            return OperatorReply.refusing(under_way)
        leaving = [key for key, state in under_way.items() if node_id in state.removing]
        return await self._reassign([ReassignmentWish(key, None) for key in leaving], ())

    async def _throttle(self, throttled_rate: int) -> OperatorReply:
        for broker in self._topics.brokers():
            if broker.draining and (
                refused := await self._operations.set_draining(broker.node_id, True, throttled_rate).wait()
            ):
                return OperatorReply.refusing(refused)
        under_way = self._operations.reassignments(None)
        if isinstance(under_way, Refused):
            return OperatorReply.refusing(under_way)
        moving = {key: state for key, state in under_way.items() if state.adding}
        return await self._reassign(
            [ReassignmentWish(key, target_of(state), throttled_rate) for key, state in moving.items()], ()
        )

    async def _progress(self, moves: Sequence[Move]) -> OperatorReply:
        held = await self._sizes.ask()
        sizes = {(*key, node_id): size for node_id, each in held.items() for key, size in each.sizes.items()}
        under_way = self._operations.reassignments(None)
        if isinstance(under_way, Refused):
            return OperatorReply.refusing(under_way)
        undone = []
        for move in moves:
            state = self._state(move)
            if (move.topic, move.partition) in under_way or state is None:
                continue
            if set(target_of(state)) != set(move.replicas):
                reason = f"its replicas are {list(state.replicas)}: somebody else has changed them, or cancelled it"
                undone.append(Unmoved(move.topic, move.partition, reason))
        return OperatorReply(refused=tuple(undone), progress=progress(moves, sizes, under_way.keys()))

    async def _elect(self, partitions: Sequence[tuple[str, int]] | None) -> OperatorReply:
        keys = None if partitions is None else [PartitionKey(*each) for each in partitions]
        rows = await self._operations.elect(keys, unclean=False).wait()
        if isinstance(rows, Refused):
            return OperatorReply.refusing(rows)
        found = keys if keys is not None else [row.key or PartitionKey("", -1) for row in rows]
        return _outcome(found, rows, ())

    async def _reassign(self, wishes: Sequence[ReassignmentWish], refused: Sequence[Unmoved]) -> OperatorReply:
        if not wishes:
            return OperatorReply(refused=tuple(refused))
        rows = await self._operations.reassign(wishes).wait()
        if isinstance(rows, Refused):
            return OperatorReply.refusing(rows)
        return _outcome([wish.partition for wish in wishes], rows, refused)

    def _state(self, move: Move) -> PartitionState | None:
        topic = self._image.topic(move.topic)
        if topic is None or not 0 <= move.partition < len(topic.partitions):
            return None
        return topic.partitions[move.partition].state


def _planned(request: AskPlan, brokers: Sequence[Broker], placed: Sequence[PlacedPartition]) -> Plan:
    """Pure, for a thread."""
    match request.kind:
        case "leaders":
            return balance_leaders(brokers, placed)
        case "drain":
            if request.node_id is None:
                raise PenstockError(Problem.INVALID_REQUEST, "a drain needs the broker's id")
            return drain(brokers, placed, request.node_id)
        case "rebalance":
            # A broker that has nothing yet has joined: it gets its share from the others, and they keep the rest.
            joined = [each.node_id for each in brokers if each.live and not each.draining and not each.replicas]
            return fair_share(brokers, placed, joined) if joined else rebalance(brokers, placed)
    assert_never(request.kind)


def _outcome(keys: Sequence[PartitionKey], rows: Rows, refused: Sequence[Unmoved]) -> OperatorReply:
    failed = list(refused)
    done = 0
    for key, row in zip(keys, rows, strict=True):
        if row.refusal is None:
            done += 1
        elif row.refusal.problem not in _FINE:
            failed.append(Unmoved(*key, row.refusal.text))
    return OperatorReply(refused=tuple(failed), done=done)


def _free_bytes(held: Mapping[int, Held], broker: Broker) -> int | None:
    return held[broker.node_id].free_bytes if broker.node_id in held else None


def _largest(held: Mapping[int, Held]) -> dict[tuple[str, int], int]:
    """Of all replicas of a partition: the others will be as large."""
    found: dict[tuple[str, int], int] = {}
    for each in held.values():
        for key, size in each.sizes.items():
            found[key] = max(size, found.get(key, 0))
    return found
