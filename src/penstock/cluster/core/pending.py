"""Requests that wait for the store: decided row by row into drafts, answered when all rows are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as replace_field
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from penstock.cluster.core.alter_partition import alter_partition
from penstock.cluster.core.draft import Draft
from penstock.cluster.core.effects import Answer, Row
from penstock.cluster.core.election import Choice, candidates_in_doubt, changed, settled, without
from penstock.cluster.core.events import (
    AlterPartition,
    AlterReassignments,
    BrokerStopping,
    ConfigureBroker,
    ElectLeaders,
    ReassignmentWish,
    Request,
    SetDraining,
    UnregisterBroker,
)
from penstock.cluster.core.reassignment import cancelled, reassigned, target_of
from penstock.cluster.core.view import PartitionKey, View
from penstock.coordination.paths import NO_LEADER
from penstock.errors import Problem, Refused

Decide = Callable[[Draft], Row]
Plan = Callable[[View], Sequence[Decide]]


class Pending:
    """What was decided but not committed is decided again after `roll_back`: by then other things may be true."""

    def __init__(self, request_id: int, plan: Plan) -> None:
        """`plan` is asked when the request's turn comes for the first time."""
        self.request_id = request_id
        self._plan = plan
        self._decisions: Sequence[Decide] | None = None
        self._rows: list[Row] = []
        self._committed = 0

    @property
    def is_done(self) -> bool:
        return self._decisions is not None and self._committed == len(self._decisions)

    def advance(self, draft: Draft) -> bool:
        """False if the draft has no room for all of it."""
        if self._decisions is None:
            self._decisions = self._plan(draft.view)
        while len(self._rows) < len(self._decisions) and not self._is_over():
            if draft.is_full:
                return False
            self._rows.append(self._decisions[len(self._rows)](draft))
        return True

    def commit(self, view: View) -> None:
        for place in range(self._committed, len(self._rows)):
            key, _, node = row = self._rows[place]
            if key is not None and node is not None:
                # Others in the same transaction may have changed it further, and one version has one state.
                self._rows[place] = row._replace(node=view.partition(key))
        self._committed = len(self._rows)

    def roll_back(self) -> None:
        del self._rows[self._committed :]

    def answer(self) -> Answer:
        for row in self._rows:
            # Of the broker that asks, so of all rows.
            if _is(row, Problem.STALE_BROKER_EPOCH):
                return Answer(self.request_id, row.refusal)
        return Answer(self.request_id, None, tuple(self._rows))

    def _is_over(self) -> bool:
        return False


class PendingElections(Pending):
    """Of all partitions: those that need none are not worth a row."""

    def answer(self) -> Answer:
        rows = tuple(row for row in self._rows if not _is(row, Problem.ELECTION_NOT_NEEDED))
        return Answer(self.request_id, None, rows)


class PendingForBroker(Pending):
    """One answer for all of it: the first row that is refused is the answer, and what comes after it is not done."""

    @property
    def is_done(self) -> bool:
        return super().is_done or (self._is_over() and self._committed == len(self._rows))

    def answer(self) -> Answer:
        return Answer(self.request_id, self._rows[-1].refusal if self._rows else None)

    def _is_over(self) -> bool:
        return bool(self._rows) and self._rows[-1].refusal is not None


class PendingStop(PendingForBroker):
    def __init__(self, request: BrokerStopping) -> None:
        super().__init__(request.request_id, partial(_stop_plan, request))
        self._node_id = request.node_id

    def answer(self) -> Answer:
        led = sum(row.node is not None and row.node.state.leader == self._node_id for row in self._rows)
        return replace_field(super().answer(), leaderships=led)


def pending(request: Request) -> Pending:
    match request:
        case AlterPartition():
            rows = [partial(alter_partition, request=request, change=change) for change in request.changes]
            return Pending(request.request_id, lambda view: rows)
        case AlterReassignments():
            wishes = [partial(_reassign, wish=wish) for wish in request.wishes]
            return Pending(request.request_id, lambda view: wishes)
        case ElectLeaders():
            kind = PendingElections if request.partitions is None else Pending
            return kind(request.request_id, partial(_election_plan, request))
        case UnregisterBroker():
            return PendingForBroker(request.request_id, partial(_unregister_plan, request.node_id))
        case SetDraining():
            return PendingForBroker(request.request_id, lambda view: [partial(_drain, request=request)])
        case ConfigureBroker():
            return PendingForBroker(request.request_id, lambda view: [partial(_configure, request=request)])
        case BrokerStopping():
            return PendingStop(request)
    assert_never(request)


def _election_plan(request: ElectLeaders, view: View) -> list[Decide]:
    choice, keys = Choice.UNCLEAN if request.unclean else Choice.PREFERRED, request.partitions
    if keys is None:
        keys = tuple(view.leaderless if request.unclean else {**view.not_preferred, **view.leaderless})
    return [partial(_elect, key=key, choice=choice) for key in keys]


def _unregister_plan(node_id: int, view: View) -> list[Decide]:
    removals = [partial(_take_from, node_id=node_id, key=key) for key in view.partitions_of(node_id)]
    return [partial(_check_unregister, node_id=node_id), *removals, partial(_forget, node_id=node_id)]


def _stop_plan(request: BrokerStopping, view: View) -> list[Decide]:
    """The draft's electorate has it among those that stop."""
    rows = [partial(_settle, key=key) for key in view.partitions_of(request.node_id)]
    return [partial(_check_stop, request=request), *rows]


def _is(row: Row, problem: Problem) -> bool:
    return row.refusal is not None and row.refusal.problem is problem


def _unknown(key: PartitionKey) -> Row:
    return Row(key, Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key.topic}-{key.partition}"))


def _reassign(draft: Draft, wish: ReassignmentWish) -> Row:
    key = wish.partition
    if (node := draft.partition(key)) is None:
        return _unknown(key)
    if wish.replicas is None:
        wanted = cancelled(node.state)
    else:
        wanted = reassigned(node.state, wish.replicas, takers(draft), wish.throttled_rate)
    if isinstance(wanted, Refused):
        return Row(key, wanted)
    draft.put_partition(key, changed(node.state, wanted, wanted.isr, draft.electorate, draft.view.settings(key.topic)))
    return Row(key, None, draft.partition(key))


def _elect(draft: Draft, key: PartitionKey, choice: Choice) -> Row:
    if (node := draft.partition(key)) is None:
        return _unknown(key)
    state = node.state
    if state.leader == state.replicas[0] or (choice is Choice.UNCLEAN and state.leader != NO_LEADER):
        return Row(key, Refused(Problem.ELECTION_NOT_NEEDED, f"broker {state.leader} leads already"))
    after = settled(state, draft.electorate, draft.view.settings(key.topic), choice=choice)
    if choice is Choice.PREFERRED and after.leader != state.replicas[0]:
        text = f"broker {state.replicas[0]}, the preferred leader, is not live and in sync"
        return Row(key, Refused(Problem.PREFERRED_LEADER_NOT_AVAILABLE, text))
    if after.leader == NO_LEADER:
        return Row(key, Refused(Problem.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of its replicas is alive"))
    draft.put_partition(key, after)
    return Row(key, None, draft.partition(key))


def takers(draft: Draft) -> set[int]:
    """Brokers that may get new replicas."""
    live, stopping, _ = draft.electorate
    states = {node_id: draft.broker_state(node_id) for node_id in live - stopping}
    return {node_id for node_id, state in states.items() if state is not None and not state.draining}


def _check_stop(draft: Draft, request: BrokerStopping) -> Row:
    if draft.view.broker(request.node_id).broker_epoch == request.broker_epoch:
        return Row(None)
    text = f"broker {request.node_id} is not registered with epoch {request.broker_epoch}"
    return Row(None, Refused(Problem.STALE_BROKER_EPOCH, text))


def _settle(draft: Draft, key: PartitionKey) -> Row:
    if (node := draft.partition(key)) is not None:
        draft.put_partition(key, settled(node.state, draft.electorate, draft.view.settings(key.topic)))
    return Row(key, None, draft.partition(key))


def _check_unregister(draft: Draft, node_id: int) -> Row:
    if draft.view.broker(node_id).state is None:
        return Row(None, Refused(Problem.BROKER_NOT_REGISTERED, f"broker {node_id} is not known"))
    if (refusal := _registered(draft, node_id)) is not None:
        return Row(None, refusal)
    for key in draft.view.partitions_of(node_id):
        if (refusal := _indispensable(draft, node_id, key)) is not None:
            return Row(key, refusal)
    return Row(None)


def _registered(draft: Draft, node_id: int) -> Refused | None:
    if draft.view.broker(node_id).registration is None:
        return None
    return Refused(Problem.INVALID_REQUEST, f"broker {node_id} is registered: stop it, and wait for its session's end")


def _indispensable(draft: Draft, node_id: int, key: PartitionKey) -> Refused | None:
    node = draft.partition(key)
    if node is None:
        return None
    if {*node.state.isr, *node.state.eligible_leaders} == {node_id}:
        has = "has"
    elif node_id in candidates_in_doubt(node.state):
        has = "may have"
    else:
        return None
    text = (
        f"only broker {node_id} {has} everything of {key.topic}-{key.partition}: elect another leader uncleanly or "
        "delete the topic first"
    )
    return Refused(Problem.INVALID_REQUEST, text)


def _take_from(draft: Draft, node_id: int, key: PartitionKey) -> Row:
    # Again: there may be transactions in between.
    if (refusal := _registered(draft, node_id) or _indispensable(draft, node_id, key)) is not None:
        return Row(key, refusal)
    if (node := draft.partition(key)) is not None:
        left = without(node.state, node_id, keeps_doubtful=False)
        draft.put_partition(key, settled(left, draft.electorate, draft.view.settings(key.topic)))
    return Row(key)


def _forget(draft: Draft, node_id: int) -> Row:
    if (refusal := _registered(draft, node_id)) is not None:
        return Row(None, refusal)
    if draft.broker_state(node_id) is None:
        return Row(None, Refused(Problem.BROKER_NOT_REGISTERED, f"broker {node_id} was unregistered meanwhile"))
    draft.put_broker(node_id, None)
    return Row(None)


def _drain(draft: Draft, request: SetDraining) -> Row:
    state = draft.broker_state(request.node_id)
    if state is None:
        return Row(None, Refused(Problem.BROKER_NOT_REGISTERED, f"broker {request.node_id} is not known"))
    rate = request.throttled_rate if request.draining else 0
    if (state.draining, state.draining_rate) == (request.draining, rate):
        return Row(None)
    if request.draining and not state.draining:
        left = len(takers(draft) - {request.node_id})
        for key in draft.view.partitions_of(request.node_id):
            node = draft.partition(key)
            if node is not None and (count := len(target_of(node.state))) > left:
                text = (
                    f"{key.topic}-{key.partition} has {count} replicas, and {left} brokers would be left to hold them"
                )
                return Row(key, Refused(Problem.INVALID_REPLICATION_FACTOR, text))
    draft.put_broker(request.node_id, replace(state, draining=request.draining, draining_rate=rate))
    return Row(None)


def _configure(draft: Draft, request: ConfigureBroker) -> Row:
    state = draft.broker_state(request.node_id)
    if state is None:
        return Row(None, Refused(Problem.BROKER_NOT_REGISTERED, f"broker {request.node_id} is not known"))
    if state.config != request.config:
        draft.put_broker(request.node_id, replace(state, config=dict(request.config)))
    return Row(None)
