"""What an operator asks of the controller: replicas that move, leaders that are elected, brokers that leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from penstock.cluster.controller import ActiveController
from penstock.cluster.core.drain import drain
from penstock.cluster.core.effects import Answer, Row
from penstock.cluster.core.events import (
    AlterReassignments,
    ConfigureBroker,
    ElectLeaders,
    ReassignmentWish,
    Request,
    SetDraining,
    UnregisterBroker,
)
from penstock.cluster.core.image import Image
from penstock.cluster.core.plan import Move, PlacedPartition
from penstock.cluster.core.reassignment import reassignments, target_of
from penstock.cluster.core.view import PartitionKey
from penstock.cluster.topics import Topics
from penstock.coordination.paths import BrokerState, PartitionState
from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later

Rows = Sequence[Row]
_NOT_CONTROLLER = Refused(Problem.NOT_CONTROLLER, "this broker is not the controller")


class Operations:
    """Everything is refused with NOT_CONTROLLER where another broker decides."""

    def __init__(self, image: Image, topics: Topics, controller: Callable[[], ActiveController | None]) -> None:
        self._image = image
        self._topics = topics
        self._controller = controller

    def reassign(self, wishes: Sequence[ReassignmentWish]) -> Later[Rows | Refused]:
        """A row for each wish, at its position."""
        return self._ask(lambda request_id: AlterReassignments(request_id, tuple(wishes))).map(_rows)

    def reassignments(self, keys: Sequence[PartitionKey] | None) -> Mapping[PartitionKey, PartitionState] | Refused:
        """Those under way, of these partitions or of all."""
        controller = self._controller()
        return _NOT_CONTROLLER if controller is None else reassignments(controller.view, keys)

    def elect(self, partitions: Sequence[PartitionKey] | None, unclean: bool) -> Later[Rows | Refused]:
        """A row for each partition; for all that need it if none are named."""
        keys = None if partitions is None else tuple(partitions)
        return self._ask(lambda request_id: ElectLeaders(request_id, keys, unclean)).map(_rows)

    def unregister(self, node_id: int) -> Later[Refused | None]:
        return self._ask(lambda request_id: UnregisterBroker(request_id, node_id)).map(lambda answer: answer.refusal)

    def broker_state(self, node_id: int) -> BrokerState | Refused:
        """What is known of it for good."""
        controller = self._controller()
        if controller is None:
            return _NOT_CONTROLLER
        state = controller.view.broker(node_id).state
        if state is None:
            return Refused(Problem.BROKER_NOT_REGISTERED, f"broker {node_id} is not known")
        return state

    def configure(self, node_id: int, config: Mapping[str, str]) -> Later[Refused | None]:
        """All settings that count for it over those of its start; whoever gives them has checked them."""
        return self._ask(lambda request_id: ConfigureBroker(request_id, node_id, config)).map(
            lambda answer: answer.refusal
        )

    async def drain(self, node_id: int, draining: bool) -> Refused | None:
        """No new replicas go to it, and those that are there leave. Nothing is changed if some of them could not."""
        if self._controller() is None:
            return _NOT_CONTROLLER
        moves: Sequence[Move] = ()
        if draining:
            try:
                # Seconds, in a large cluster.
                moves = (await asyncio.to_thread(drain, self._topics.brokers(), self.placed(), node_id)).moves
            except PenstockError as error:
                return Refused.by(error)
        refused = await self.set_draining(node_id, draining).wait()
        if refused is not None or not moves:
            return refused
        return await self.move(moves)

    def set_draining(self, node_id: int, draining: bool, throttled_rate: int = 0) -> Later[Refused | None]:
        """Whether new replicas may go to it; of those that are there, upkeep takes care."""
        return self._ask(lambda request_id: SetDraining(request_id, node_id, draining, throttled_rate)).map(
            lambda answer: answer.refusal
        )

    async def move(self, moves: Sequence[Move], throttled_rate: int = 0) -> Refused | None:
        """The first refusal, if there is one; the others move all the same. What has changed since it was planned stays

        for the next plan.
        """
        fitting = [move for move in moves if not self.changed_since(move)]
        wishes = [wish_of(move, throttled_rate) for move in fitting]
        rows = await self.reassign(wishes).wait()
        if isinstance(rows, Refused):
            return rows
        return next((row.refusal for row in rows if row.refusal is not None), None)

    def changed_since(self, move: Move) -> str:
        """Why the partition is not any more what the move was planned for; empty if it is."""
        topic = self._image.topic(move.topic)
        if topic is None or not 0 <= move.partition < len(topic.partitions):
            return "it does not exist any more"
        state = topic.partitions[move.partition].state
        if state.adding or state.removing:
            return "a reassignment is under way"
        if state.replicas != move.before:
            return f"it was planned for replicas {list(move.before)}, and has {list(state.replicas)}"
        return ""

    def placed(self) -> list[PlacedPartition]:
        """All partitions as planning wants them, without their sizes."""
        return [
            PlacedPartition(
                topic.name,
                index,
                target_of(partition.state),
                partition.isr,
                min_isr=partition.state.min_insync_replicas,
                moving=bool(partition.state.adding or partition.state.removing),
            )
            for topic in self._image.topics()
            for index, partition in enumerate(topic.partitions)
        ]

    def _ask(self, request_of: Callable[[int], Request]) -> Later[Answer]:
        controller = self._controller()
        if controller is None:
            return Later.of(Answer(0, _NOT_CONTROLLER))
        return controller.ask(request_of)


def wish_of(move: Move, throttled_rate: int) -> ReassignmentWish:
    return ReassignmentWish(PartitionKey(move.topic, move.partition), move.replicas, throttled_rate)


def _rows(answer: Answer) -> Rows | Refused:
    return answer.rows if answer.refusal is None else answer.refusal
