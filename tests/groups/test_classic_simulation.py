"""Random members that join, sync, commit, crash and come back, under a coordinator that restarts at any time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.groups.members import joining
from tests.groups.runner import Pending, Runner

from penstock.errors import Problem
from penstock.groups.core.answers import (
    CommitAnswer,
    FetchAnswer,
    GroupAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from penstock.groups.core.classic_state import ClassicGroup, ClassicState
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import (
    CommitOffsets,
    FetchOffsets,
    LeaveGroup,
    LeavingMember,
    MemberHeartbeat,
    OffsetToCommit,
    SyncGroup,
    TopicOffsets,
)
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.groups.core.records import ClassicGroupValue, decode

PARTITIONS = 5
PROTOCOLS = (("range", b"r"), ("sticky", b"s"))


@dataclass
class Member:
    """A client's own idea of where it stands. `identity` is what makes it the same consumer through restarts."""

    number: int
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    joined: JoinAnswer | None = None
    pending: Pending[GroupAnswer] | None = None

    @property
    def identity(self) -> str:
        return self.instance_id or self.member_id

    def reset(self) -> None:
        self.generation, self.joined, self.pending = -1, None, None
        if self.instance_id is not None:
            self.member_id = ""


numbers = st.integers(0, 3)
protocol_lists = st.sampled_from([PROTOCOLS, PROTOCOLS[:1], PROTOCOLS[::-1]])


class ClassicGroupSimulation(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 500]), max_size=st.sampled_from([2, 100]))
    def start(self, delay_ms: int, max_size: int) -> None:
        limits = GroupLimits(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.runner = Runner(lambda: GroupsMachine(limits, ConsumerLimits()))
        self.members = [Member(n, f"instance-{n}" if n % 2 else None) for n in range(4)]
        self.every_pending: list[Pending[GroupAnswer]] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.sets: dict[int, frozenset[str]] = {}
        self.newest_generation = 0
        self.committed: dict[int, int] = {}
        self.offsets = itertools.count(1)

    @rule(
        number=numbers, protocols=st.sampled_from([PROTOCOLS, PROTOCOLS[:1], PROTOCOLS[::-1]]), known_id=st.booleans()
    )
    def join(self, number: int, protocols: tuple[tuple[str, bytes], ...], known_id: bool) -> None:
        member = self.members[number]
        event = joining(
            member.member_id,
            instance_id=member.instance_id,
            protocols=protocols,
            session_timeout_ms=6000,
            rebalance_timeout_ms=10_000 + number,
            known_id=known_id,
        )
        member.joined = None
        self._await(member, self.runner.submit(event))

    @rule(number=numbers)
    def sync(self, number: int) -> None:
        member = self.members[number]
        if member.joined is None:
            return
        rows: tuple[tuple[str, bytes], ...] = ()
        if member.joined.members and not member.joined.skip_assignment:
            ids = [row.member_id for row in member.joined.members]
            rows = tuple((one, bytes(range(PARTITIONS))[place :: len(ids)]) for place, one in enumerate(ids))
        event = SyncGroup("group", member.member_id, member.generation, member.instance_id, assignments=rows)
        self._await(member, self.runner.submit(event))

    @rule(number=numbers)
    def heartbeat(self, number: int) -> None:
        member = self.members[number]
        written = len(self.runner.log)
        event = MemberHeartbeat("group", member.member_id, member.generation, member.instance_id)
        answer = self.runner.ask(event, HeartbeatAnswer)
        assert len(self.runner.log) == written
        self._heed(member, answer.problem)

    @rule(number=numbers, partition=st.integers(0, PARTITIONS - 1))
    def commit(self, number: int, partition: int) -> None:
        member = self.members[number]
        offset = next(self.offsets)
        rows = (TopicOffsets("orders", (OffsetToCommit(partition, offset),)),)
        event = CommitOffsets("group", rows, member.member_id, member.generation, member.instance_id)
        answer = self.runner.ask(event, CommitAnswer)
        if answer.problem is None:
            self.committed[partition] = offset
            assert member.generation in (-1, self.newest_generation), "a member of an old generation committed"

    @rule(number=numbers, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        member = self.members[number]
        leaving = LeavingMember("" if by_instance else member.member_id, member.instance_id)
        self.runner.ask(LeaveGroup("group", (leaving,)), LeaveAnswer)
        member.reset()

    @rule(number=numbers)
    def crash(self, number: int) -> None:
        """The process starts anew; a static one still knows its instance id, a dynamic one nothing."""
        member = self.members[number]
        member.reset()
        member.member_id = ""

    @rule(by_ms=st.sampled_from([1, 400, 3000, 5999, 6000, 20_000]))
    def time_passes(self, by_ms: int) -> None:
        self.runner.advance(by_ms)

    @precondition(lambda self: self.runner.log)
    @rule(compacted=st.booleans())
    def coordinator_restarts(self, compacted: bool) -> None:
        self._compare_with_replay()
        self.runner.restart(compacted=compacted)
        for member in self.members:
            member.pending = None
        self.every_pending.clear()

    def _await(self, member: Member, pending: Pending[GroupAnswer]) -> None:
        member.pending = pending
        self.every_pending.append(pending)

    def _heed(self, member: Member, problem: Problem | None) -> None:
        """What clients do when they are refused."""
        if problem in (Problem.UNKNOWN_MEMBER, Problem.GROUP_FULL):
            member.reset()
            member.member_id = ""
        elif problem is Problem.FENCED_INSTANCE_ID:
            member.reset()
        elif problem is Problem.ILLEGAL_GENERATION:
            member.generation, member.joined = -1, None

    @invariant()
    def answers_hold_together(self) -> None:
        self._generations_only_grow()
        for member in self.members:
            if member.pending is None or not member.pending.done:
                continue
            answer = member.pending.answer
            member.pending = None
            if isinstance(answer, JoinAnswer):
                self._learn_join(member, answer)
            elif isinstance(answer, SyncAnswer):
                self._learn_assignment(member, answer)

    def _generations_only_grow(self) -> None:
        stored = self.runner.machine.state.stored.get("group")
        if isinstance(stored, ClassicGroupValue):
            assert stored.generation >= self.newest_generation
            self.newest_generation = stored.generation
        elif self.newest_generation:
            # The empty group has expired: the next of its name is another one.
            self.newest_generation = 0
            self.owners.clear()
            self.sets.clear()

    def _learn_join(self, member: Member, answer: JoinAnswer) -> None:
        if answer.problem is Problem.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
        self._heed(member, answer.problem)
        if answer.problem is not None:
            return
        member.member_id, member.generation, member.joined = answer.member_id, answer.generation, answer
        assert answer.generation <= self.newest_generation
        if answer.members:
            assert answer.leader == answer.member_id
            identities = frozenset(row.group_instance_id or row.member_id for row in answer.members)
            assert self.sets.setdefault(answer.generation, identities) == identities, "a generation came twice"

    def _learn_assignment(self, member: Member, answer: SyncAnswer) -> None:
        self._heed(member, answer.problem)
        if answer.problem is None:
            for partition in answer.assignment:
                owner = self.owners.setdefault((member.generation, partition), member.identity)
                assert owner == member.identity, f"two own partition {partition} in generation {member.generation}"

    @invariant()
    def what_is_stored_is_what_is_lived(self) -> None:
        group = self.runner.machine.state.find("group")
        if isinstance(group, ClassicGroup) and group.state is not ClassicState.PREPARING_REBALANCE and group.members:
            assert group.stored().value == self.runner.machine.state.stored["group"]

    @invariant()
    def commits_are_kept(self) -> None:
        answer = self.runner.ask(FetchOffsets("group", None), FetchAnswer)
        assert {row.partition: row.offset for topic in answer.topics for row in topic.partitions} == self.committed

    def _compare_with_replay(self) -> None:
        live = self.runner.machine.state
        twin = GroupsMachine(GroupLimits(), ConsumerLimits())
        for key, value in self.runner.log:
            twin.apply(decode(key, value))
        assert twin.state.stored == live.stored
        assert {one: twin.state.offsets.of(one) for one in twin.state.offsets} == {
            one: live.offsets.of(one) for one in live.offsets
        }

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        self._compare_with_replay()
        self.runner.advance(600_000)
        assert all(pending.done for pending in self.every_pending), "somebody waits for an answer for ever"
        assert not self.runner.parked
        group = self.runner.machine.state.find("group")
        assert group is None or group.is_empty, "nobody was heard of, and yet somebody is still a member"


TestClassicGroupSimulation = ClassicGroupSimulation.TestCase
TestClassicGroupSimulation.settings = settings(max_examples=150, stateful_step_count=50)
