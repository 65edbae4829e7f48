"""A consumer of the classic protocol, eager or cooperative, that can be in a group with KIP-848 members."""

from __future__ import annotations

import io
from typing import Any

from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription, TopicPartition
from kio.serial import entity_writer
from tests.groups.consumer_client import Pairs, pairs, partitions
from tests.groups.consumer_world import GROUP, World
from tests.groups.runner import Pending

from penstock.errors import Problem
from penstock.groups.core.answers import GroupAnswer, HeartbeatAnswer, JoinAnswer, SyncAnswer
from penstock.groups.core.assignor_uniform import assign_uniform
from penstock.groups.core.assignors import Subscriber, Subscriptions
from penstock.groups.core.consumer_embedded import read_assignment, read_subscription, write_assignment
from penstock.groups.core.events import JoinGroup, LeaveGroup, LeavingMember, MemberHeartbeat, SyncGroup

SESSION_MS = 30_000


class ClassicClient:
    """`step` does whatever such a client does next. `is_in` means: it has its assignment and nothing else to do."""

    def __init__(
        self, world: World, name: str, topics: tuple[str, ...], *, cooperative: bool, instance_id: str | None = None
    ) -> None:
        self._world = world
        self._name = name
        self.topics = topics
        self.instance_id = instance_id
        self._cooperative = cooperative
        self.member_id = ""
        self.generation = -1
        self.owned: Pairs = frozenset()
        self._joined: JoinAnswer | None = None
        self._waiting: Pending[GroupAnswer] | None = None
        self.is_in = False
        self.problems: list[Problem] = []
        self._fresh = 0

    @property
    def held(self) -> Pairs:
        return self.owned

    def disconnect(self) -> None:
        """The coordinator has gone: what was asked is asked again."""
        self._waiting = self._joined = None

    def rejoin(self) -> None:
        self._waiting = self._joined = None
        self.is_in = False

    def assignments(self) -> tuple[tuple[str, bytes], ...]:
        """What a leader that has joined decides."""
        assert self._joined is not None
        return tuple(self._lead(self._joined).items())

    def step(self) -> None:
        if self._waiting is not None:
            if self._waiting.done:
                self._hear(self._waiting)
        elif self._joined is not None and not self.is_in:
            self._ask(self._sync_request(self._joined))
        elif self.is_in:
            self._ask(MemberHeartbeat(GROUP, self.member_id, self.generation, self.instance_id))
        else:
            self._ask(self._join_request())

    def leave(self) -> None:
        self._world.runner.submit(LeaveGroup(GROUP, (LeavingMember(self.member_id, self.instance_id),)))
        self.owned = frozenset()

    def _ask(self, event: Any) -> None:
        self._waiting = self._world.runner.submit(event)
        if self._waiting.done:
            self._hear(self._waiting)

    def _hear(self, pending: Pending[GroupAnswer]) -> None:
        self._waiting = None
        match pending.answer:
            case JoinAnswer(problem=None) as joined:
                self.member_id, self.generation, self._joined = joined.member_id, joined.generation, joined
            case JoinAnswer(problem=Problem.MEMBER_ID_REQUIRED, member_id=member_id):
                self.member_id = member_id
            case SyncAnswer(problem=None, assignment=assignment):
                self._take(assignment)
            case HeartbeatAnswer(problem=None):
                pass
            case JoinAnswer(problem=problem) | SyncAnswer(problem=problem) | HeartbeatAnswer(problem=problem):
                assert problem is not None
                self._refused(problem)
            case other:
                raise AssertionError(other)

    def _refused(self, problem: Problem) -> None:
        self.problems.append(problem)
        self._joined, self.is_in = None, False
        if problem is Problem.REBALANCE_IN_PROGRESS:
            return
        assert problem in (Problem.UNKNOWN_MEMBER, Problem.ILLEGAL_GENERATION, Problem.FENCED_INSTANCE_ID), problem
        self.owned = frozenset()
        if problem is not Problem.ILLEGAL_GENERATION:
            self.member_id = ""

    def _take(self, assignment: bytes) -> None:
        rows = read_assignment(assignment)
        assert rows is not None
        assigned = pairs(self._world.ids(dict(rows)))
        gave_up = self.owned - assigned
        self.owned = assigned
        self._joined, self.is_in = None, not (gave_up and self._cooperative)

    def _join_request(self) -> JoinGroup:
        if not self._cooperative:
            self.owned = frozenset()
        self._fresh += 1
        return JoinGroup(
            group_id=GROUP,
            member_id=self.member_id,
            client_id=self._name,
            client_host="127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("assignor", self._metadata()),),
            fresh_id=str(self._fresh),
            group_instance_id=self.instance_id,
        )

    def _metadata(self) -> bytes:
        owned = self._world.names(partitions(self.owned)) or {}
        rows: list[Any] = [TopicPartition(topic=name, partitions=tuple(found)) for name, found in owned.items()]  # type: ignore[arg-type]
        buffer = io.BytesIO()
        entity = ConsumerProtocolSubscription(topics=self.topics, owned_partitions=tuple(rows))
        entity_writer(ConsumerProtocolSubscription)(buffer, entity)
        return b"\x00\x03" + buffer.getvalue()

    def _sync_request(self, joined: JoinAnswer) -> SyncGroup:
        assignments = self.assignments() if joined.leader == joined.member_id else ()
        return SyncGroup(GROUP, self.member_id, self.generation, self.instance_id, "consumer", "assignor", assignments)

    def _lead(self, joined: JoinAnswer) -> dict[str, bytes]:
        """As cooperative assignors do: what another member has is left out until it has given it up."""
        wishes: dict[str, Subscriber] = {}
        for member in joined.members:
            embedded = read_subscription(member.metadata)
            assert embedded is not None
            topic_ids = self._world.ids(dict.fromkeys(embedded.topics, (0,))).keys()
            wishes[member.member_id] = Subscriber(frozenset(topic_ids), self._world.ids(dict(embedded.owned)))
        targets = assign_uniform(Subscriptions(members=wishes, partition_counts=self._world.partition_counts))
        assignments = {}
        for member_id, target in targets.items():
            others = {pair for id_, wish in wishes.items() if id_ != member_id for pair in pairs(wish.target)}
            given = self._world.names(partitions(frozenset(pairs(target) - others))) or {}
            assignments[member_id] = write_assignment(given.items(), 3)
        return assignments
