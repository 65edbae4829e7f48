"""The controller: from what happens to transactions, and from committed transactions to what everybody is told.

It decides from what it knows to be committed, never from a plan: an event marks partitions and brokers to be looked at,
and a transaction is made of what they need *now*. So it makes no difference whether an earlier transaction succeeded,
met a conflict or vanished: what is marked is looked at again. One transaction is on its way at a time; all that comes
meanwhile shares the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from penstock.cluster.core.admission import Admission
from penstock.cluster.core.doubts import Doubts
from penstock.cluster.core.draft import MAX_BYTES, Draft
from penstock.cluster.core.effects import Answer, Commit, Effect, Reload, Resign
from penstock.cluster.core.election import Electorate, settled
from penstock.cluster.core.events import (
    BrokerFoundDead,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    Committed,
    Conflicted,
    Event,
    LogEnds,
    Request,
    Tick,
    TopicChanged,
    TopicConfigured,
    TopicRemoved,
)
from penstock.cluster.core.pending import Pending, pending
from penstock.cluster.core.preferred import PreferredLeaderOptions, PreferredLeaders
from penstock.cluster.core.view import PartitionKey, View
from penstock.coordination.paths import CONTROLLER_EPOCH, NO_EPOCH
from penstock.errors import PenstockError, Problem, Refused

_NOT_CONTROLLER = Refused(Problem.NOT_CONTROLLER, "another broker is the controller now")


class Controller:
    """For one controller epoch. Call `start` with what the store holds after that epoch was begun, then `step`.

    Effects are to be carried out in order; each call returns at once. After `Resign` nothing more is decided.
    """

    def __init__(
        self,
        controller_epoch_version: int,
        preferred: PreferredLeaderOptions | None = None,
        max_transaction_bytes: int = MAX_BYTES,
    ) -> None:
        """The version that the controller epoch's node got from this controller."""
        self._epoch_version = controller_epoch_version
        self._max_transaction_bytes = max_transaction_bytes
        self.view = View(controller_epoch_version)
        self._has_started = False
        self._has_resigned = False
        # To be looked at, in this order.
        self._marked: dict[PartitionKey, None] = {}
        self._admissions: dict[int, Admission] = {}
        self._requests: list[Pending] = []
        # By broker, the epoch in which it was found dead, or wants to stop. Volatile: evidence is recorded in the store
        # with the first transaction that follows from it, and a stopping broker asks again.
        self._dead: dict[int, int] = {}
        self._stopping: dict[int, int] = {}
        self._preferred = PreferredLeaders(preferred or PreferredLeaderOptions())
        self._doubts = Doubts()
        self._commits = 0
        self._in_flight: Draft | None = None
        # What was marked and is in the draft in flight.
        self._taken: list[PartitionKey] = []

    def start(self, view: View, now_ms: int) -> list[Effect]:
        """At first, and whenever the outcome of a commit is not known.

        `view` was read after a sync of the store. What was told while it was read may not be in it: tell it again.
        """
        if self._has_resigned:
            return []
        if view.controller_epoch_version != self._epoch_version:
            return self._resign()
        self._roll_back()
        self.view = view
        self._has_started = True
        self._doubts.forget()
        self._admissions = {}
        for node_id in sorted(view.brokers):
            self._expect(node_id)
        self._marked = {}
        self._mark(sorted(view.partitions(), key=self._has_leader))
        return self._go_on(now_ms)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if self._has_resigned:
            return [Answer(event.request_id, _NOT_CONTROLLER)] if isinstance(event, Request) else []
        effects: list[Effect] = []
        match event:
            case BrokerRegistered():
                self._register(event)
            case BrokerGone():
                self._lose(event)
            case BrokerFoundDead():
                self._dead[event.node_id] = max(event.broker_epoch, self._dead.get(event.node_id, NO_EPOCH))
                self._expect(event.node_id)
                self._mark(self.view.partitions_of(event.node_id))
            case TopicChanged():
                self.view.put_topic(event.topic)
                self._mark(self.view.partitions_of_topic(event.topic.name))
            case TopicConfigured():
                self.view.configure_topic(event.topic, event.settings)
                self._mark(self.view.partitions_of_topic(event.topic))
            case TopicRemoved():
                self.view.remove_topic(event.topic)
            case LogEnds():
                self._doubts.hear(event.partition, event.ends)
            case Committed():
                effects += self._succeed(event)
            case Conflicted():
                effects += self._conflict(event)
            case Tick():
                pass
            case _:
                if isinstance(event, BrokerStopping):
                    self._stopping[event.node_id] = max(event.broker_epoch, self._stopping.get(event.node_id, NO_EPOCH))
                self._requests.append(pending(event))
        return effects + self._go_on(now_ms)

    def awaits(self, commit_id: int) -> bool:
        """False: everything was read anew since it was decided, so it must not be carried out any more."""
        return self._in_flight is not None and commit_id == self._commits

    def next_deadline_ms(self) -> int | None:
        """When to call `step` with a `Tick` at the latest; it may be in the past."""
        if not self._has_started:
            return None
        deadlines = (self._preferred.next_deadline_ms(self.view), self._doubts.next_deadline_ms(self.view))
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Events

    def _register(self, event: BrokerRegistered) -> None:
        if event.broker_epoch < self.view.broker(event.node_id).broker_epoch:
            return
        self.view.register(event.node_id, event.broker_epoch, event.registration)
        self._expect(event.node_id)
        self._mark(self.view.partitions_of(event.node_id))

    def _lose(self, event: BrokerGone) -> None:
        if event.broker_epoch < self.view.broker(event.node_id).broker_epoch:
            return
        self.view.unregister(event.node_id)
        self._expect(event.node_id)
        self._mark(self.view.partitions_of(event.node_id))

    def _expect(self, node_id: int) -> None:
        """An admission if the broker needs one now."""
        broker, admission = self.view.broker(node_id), self._admissions.get(node_id)
        if not broker.awaits_admission or self._dead.get(node_id, NO_EPOCH) >= broker.broker_epoch:
            self._admissions.pop(node_id, None)
        elif admission is None or admission.broker_epoch != broker.broker_epoch:
            self._admissions[node_id] = Admission(node_id, broker.broker_epoch)

    # Transactions

    def _go_on(self, now_ms: int) -> list[Effect]:
        if not self._has_started or self._in_flight is not None:
            return []
        self._preferred.look(self.view, now_ms)
        draft = self._draft()
        effects: list[Effect] = [*self._doubts.questions(draft, now_ms)]
        if draft.is_empty:
            # Whatever was looked at needs no change, and what was asked is refused or done already.
            return [*self._answers(), *effects]
        self._commits += 1
        self._in_flight = draft
        return [Commit(self._commits, draft.changes), *effects]

    def _draft(self) -> Draft:
        view = self.view
        dead = {node_id for node_id, epoch in self._dead.items() if epoch >= view.broker(node_id).broker_epoch}
        stopping = {node_id for node_id, epoch in self._stopping.items() if epoch == view.broker(node_id).broker_epoch}
        # An admission that has to wait keeps no place in an ISR.
        joining = frozenset(self._admissions) if view.is_complete else frozenset[int]()
        electorate = Electorate(view.live - dead, stopping, joining)
        draft = Draft(view, electorate, self._max_transaction_bytes)
        for node_id in sorted(dead):
            state = view.broker(node_id).state
            if state is not None and state.fenced_epoch < view.broker(node_id).broker_epoch:
                draft.put_broker(node_id, replace(state, fenced_epoch=view.broker(node_id).broker_epoch))
        # Before the others are looked at: whoever comes back may be the one that they wait for.
        for admission in self._admissions.values():
            if not admission.advance(draft):
                break
        self._look(draft)
        self._doubts.settle(draft)
        for request in self._requests:
            if not request.advance(draft):
                break
        self._preferred.settle(draft)
        return draft

    def _look(self, draft: Draft) -> None:
        marked, self._taken = list(self._marked), []
        for key in marked:
            if draft.is_full:
                return
            del self._marked[key]
            if (node := draft.partition(key)) is not None:
                self._taken.append(key)
                draft.put_partition(key, settled(node.state, draft.electorate, draft.view.settings(key.topic)))

    def _answers(self) -> list[Effect]:
        """To all that is done now."""
        answers: list[Effect] = []
        for request in self._requests:
            request.commit(self.view)
        while self._requests and self._requests[0].is_done:
            answer = self._requests.pop(0).answer()
            answers.append(answer)
            if any(row.refusal is not None and row.refusal.problem is Problem.NOT_CONTROLLER for row in answer.rows):
                # A leader has seen something in the store that is not known here.
                self._has_started = False
                answers.append(Reload())
        return answers

    def _succeed(self, event: Committed) -> list[Effect]:
        draft = self._in_flight
        if draft is None or not self.awaits(event.commit_id):
            return []
        self._in_flight = None
        publish = draft.apply(event.versions)
        for node_id in [node_id for node_id, admission in self._admissions.items() if admission.is_drafted]:
            del self._admissions[node_id]
            self._expect(node_id)
            self._mark(key for key in self.view.partitions_of(node_id) if key in self.view.leaderless)
        # Someone may have died meanwhile whom this transaction made a leader or a member.
        self._mark(partition.key for partition in publish.partitions)
        return [publish, *self._answers()]

    def _conflict(self, event: Conflicted) -> list[Effect]:
        draft = self._in_flight
        if draft is None or not self.awaits(event.commit_id):
            return []
        epoch = event.nodes[CONTROLLER_EPOCH]
        if epoch is None or epoch.version != self._epoch_version:
            return self._resign()
        self._roll_back()
        try:
            publish = draft.learn(event.nodes)
        except PenstockError:
            # Garbage in a node: whoever reads everything finds out whose, and leaves that out.
            publish = None
        if publish is None:
            self._has_started = False
            return [Reload()]
        for broker in publish.brokers:
            self._expect(broker.node_id)
        self._mark(partition.key for partition in publish.partitions)
        return [publish]

    def _roll_back(self) -> None:
        """What was in flight is as if it had never been decided."""
        self._in_flight = None
        self._marked = dict.fromkeys([*self._taken, *self._marked])
        for admission in self._admissions.values():
            admission.roll_back()
        for request in self._requests:
            request.roll_back()

    def _resign(self) -> list[Effect]:
        self._has_resigned = True
        requests, self._requests = self._requests, []
        return [*(Answer(request.request_id, _NOT_CONTROLLER) for request in requests), Resign()]

    def _mark(self, keys: Iterable[PartitionKey]) -> None:
        self._marked.update(dict.fromkeys(keys))

    def _has_leader(self, key: PartitionKey) -> bool:
        node = self.view.partition(key)
        return node is not None and node.state.leader in self.view.live
