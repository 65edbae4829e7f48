"""Leaders' wishes for other ISRs, on their way to the controller: all of one turn of the loop in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.cluster.calls import Calls
from penstock.cluster.controller import ActiveController
from penstock.cluster.core.effects import Answer, Row
from penstock.cluster.core.events import AlterPartition, IsrChange, IsrMember
from penstock.cluster.core.messages import AlterIsr, IsrWish, Reply, ReplyRow, refusal_of
from penstock.cluster.core.view import PartitionNode
from penstock.errors import Problem, Refused
from penstock.later import Later

_NO_ANSWER = Refused(Problem.REQUEST_TIMED_OUT, "the controller did not answer for this partition")


class Standing(NamedTuple):
    """This broker as the controller must know it, and the controller if it is this broker."""

    node_id: int
    broker_epoch: int
    controller: ActiveController | None


class IsrChanges:
    def __init__(self, standing: Callable[[], Standing], calls: Calls) -> None:
        self._standing = standing
        self._calls = calls
        self._waiting: list[tuple[IsrWish, Later[PartitionNode | Refused]]] = []

    def alter(self, wish: IsrWish) -> Later[PartitionNode | Refused]:
        """The partition as it is now, or why not. REQUEST_TIMED_OUT: it may have been done; ask again."""
        later: Later[PartitionNode | Refused] = Later()
        self._waiting.append((wish, later))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._send)
        return later

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        node_id, broker_epoch, controller = self._standing()
        message = AlterIsr(node_id, broker_epoch, tuple(wish for wish, _ in waiting))
        laters = [later for _, later in waiting]
        answered = self._calls.ask_controller(message) if controller is None else decide(controller, message)
        answered.when_done(lambda done: _settle(laters, done.result()))


def decide(controller: ActiveController, message: AlterIsr) -> Later[Reply]:
    """On the controller."""
    changes = tuple(
        IsrChange(
            wish.topic_id,
            wish.partition,
            wish.leader_epoch,
            wish.partition_epoch,
            tuple(IsrMember(*member) for member in wish.isr),
            wish.lost,
        )
        for wish in message.wishes
    )
    asked = controller.ask(
        lambda request_id: AlterPartition(request_id, message.node_id, message.broker_epoch, changes)
    )
    return asked.map(_reply)


def _reply(answer: Answer) -> Reply:
    if answer.refusal is not None:
        return Reply.refused(answer.refusal)
    return Reply(rows=tuple(map(_reply_row, answer.rows)))


def _reply_row(row: Row) -> ReplyRow:
    problem, text = ("", "") if row.refusal is None else (row.refusal.problem.name, row.refusal.text)
    return ReplyRow(problem, text) if row.node is None else ReplyRow(problem, text, *row.node)


def _settle(laters: Sequence[Later[PartitionNode | Refused]], reply: Reply) -> None:
    for position, later in enumerate(laters):
        row = reply.rows[position] if position < len(reply.rows) else None
        refusal = reply.refusal or (_NO_ANSWER if row is None else refusal_of(row.problem, row.text))
        if refusal is not None or row is None or row.state is None:
            later.complete(refusal or _NO_ANSWER)
        else:
            later.complete(PartitionNode(row.state, row.version))
