"""Whatever becomes of proposals and answers, who is in the ISR has all that is committed."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.replication.leader import EPOCH, LAG_MS, Leader, state
from tests.scale import examples
from tests.simulation.log import Entry, plain

from penstock.replication.core.in_sync import Altered, Answer, Declined, Proposal, Unanswered
from penstock.replication.core.leadership import Outcome


class Races(RuleBasedStateMachine):
    """A store that takes proposals, copies of them and copies that come late, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded = Altered(state(1, 2, 3, min_isr=2), 7)
        self.leader = Leader(self.recorded.state)
        self.ends = {2: 0, 3: 0}
        self.high_watermark = 0
        self.sent: list[Proposal] = []
        self.answers: list[tuple[Proposal, Answer]] = []
        self.in_flight: Proposal | None = None

    def _send(self, proposal: Proposal | None) -> None:
        if proposal is not None:
            assert self.in_flight is None
            assert proposal.version == self.leader.core.recorded.version
            self.sent.append(proposal)
            self.in_flight = proposal

    @rule(count=st.integers(1, 3), durable=st.booleans())
    def write(self, count: int, durable: bool) -> None:
        if durable:
            self.leader.write(count)
        else:
            self.leader.log.add(Entry(EPOCH, plain("a")))

    @rule(replica=st.sampled_from([2, 3]), more=st.integers(0, 12), late=st.booleans())
    def fetch(self, replica: int, more: int, late: bool) -> None:
        if late:
            self._send(self.leader.fetch(replica, max(0, self.ends[replica] - more)))
            return
        self.ends[replica] = min(self.ends[replica] + more, self.leader.log.end_offset)
        self._send(self.leader.fetch(replica, self.ends[replica]))

    @rule(ms=st.sampled_from([0, 600, LAG_MS // 2, LAG_MS + 1]))
    def wait(self, ms: int) -> None:
        self._send(self.leader.wait(ms))

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 5), ineligible=st.booleans(), heard=st.booleans())
    def arrive(self, which: int, ineligible: bool, heard: bool) -> None:
        """Of the newest that were sent; it may have arrived before."""
        proposal = self.sent[-1 - which % len(self.sent)]
        additions = {member.replica for member in proposal.isr} - set(self.recorded.state.isr)
        answer: Answer
        if proposal.version != self.recorded.version:
            answer = Declined.STALE_VERSION
        elif ineligible and additions:
            answer = Declined.INELIGIBLE_REPLICA
        else:
            isr = tuple(member.replica for member in proposal.isr)
            answer = self.recorded = Altered(state(*isr, min_isr=2), self.recorded.version + 1)
        if heard:
            self.answers.append((proposal, answer))

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 5))
    def hear(self, which: int) -> None:
        proposal, answer = self.answers.pop(which % len(self.answers))
        if proposal == self.in_flight:
            self.in_flight = None
        self._hear(proposal, answer)

    @rule()
    def give_up(self) -> None:
        if self.in_flight is not None:
            proposal, self.in_flight = self.in_flight, None
            self._hear(proposal, Unanswered.UNANSWERED)

    def _hear(self, proposal: Proposal, answer: Answer) -> None:
        before = self.leader.core.recorded.version
        outcome = self.leader.core.on_answer(proposal, answer, self.leader.now_ms)
        self._settle(before, outcome)

    @rule(removed=st.sampled_from([None, 2, 3]))
    def controller(self, removed: int | None) -> None:
        """It has changed the state by itself, or just tells what it is."""
        if removed in self.recorded.state.isr:
            isr = tuple(replica for replica in self.recorded.state.isr if replica != removed)
            self.recorded = Altered(state(*isr, min_isr=2), self.recorded.version + 1)
        before = self.leader.core.recorded.version
        outcome = self.leader.core.on_state(*self.recorded, self.leader.now_ms)
        self._settle(before, outcome)

    def _settle(self, before: int, outcome: Outcome) -> None:
        if self.leader.core.recorded.version > before:
            # Whatever was on its way is settled by that.
            self.in_flight = None
        self._send(outcome.proposal)

    @invariant()
    def members_have_what_is_committed(self) -> None:
        high_watermark = self.leader.high_watermark
        assert high_watermark >= self.high_watermark
        if high_watermark > self.high_watermark:
            assert len(self.leader.core.recorded.state.isr) >= 2
        self.high_watermark = high_watermark
        for replica in self.recorded.state.isr:
            assert replica == 1 or self.ends[replica] >= high_watermark
        assert self.leader.core.leader_epoch == EPOCH


Races.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40)
TestRaces = Races.TestCase
