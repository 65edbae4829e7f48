"""A leader between controller and followers: answers that are lost, late or refused, fetches that are not its own."""

from __future__ import annotations

from msgspec.structs import replace
from tests.replication.leader import EPOCH, LAG_MS, Leader, joining, state

from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.replication.core.in_sync import RETRY_MS, STALE_RETRY_MS, Altered, Declined, Member, Proposal, Unanswered
from penstock.replication.core.leadership import Outcome
from penstock.storage.core.leader_epochs import EpochEnd

UNANSWERED = Unanswered.UNANSWERED


def test_one_proposal_at_a_time() -> None:
    leader = Leader(state(1))
    first = joining(leader, 2)
    assert leader.fetch(3, 10) is None
    second = leader.answer(first, Altered(state(1, 2), 8))
    assert second == Proposal(EPOCH, 8, (Member(1), Member(2), Member(3, 103)), 2)


def test_what_was_not_answered_is_asked_again_and_counts_meanwhile() -> None:
    leader = Leader(state(1))
    first = joining(leader, 2)
    assert leader.answer(first, UNANSWERED) is None
    del leader.live[2]
    leader.write()
    assert leader.high_watermark == 10
    again = leader.wait(RETRY_MS)
    assert again == Proposal(EPOCH, 7, (Member(1),), 2)
    leader.answer(again, Altered(state(1), 8))
    assert leader.high_watermark == 11


def test_a_declined_addition_counts_until_no_copy_of_it_can_be_taken() -> None:
    leader = Leader(state(1))
    first = joining(leader, 2)
    leader.answer(first, Declined.INELIGIBLE_REPLICA)
    leader.write()
    assert leader.high_watermark == 10
    leader.answer(leader.wait(RETRY_MS), Altered(state(1), 8))
    assert leader.high_watermark == 11


def test_a_stale_leader_waits_for_the_state_it_does_not_know() -> None:
    leader = Leader(state(1))
    leader.answer(joining(leader, 2), Declined.STALE_VERSION)
    leader.write()
    assert leader.wait(STALE_RETRY_MS - 1) is None
    assert leader.high_watermark == 10
    del leader.live[2]
    leader.core.on_state(state(1), 8, leader.now_ms)
    assert leader.wait(LAG_MS) is None
    assert leader.high_watermark == 11


def test_a_controller_that_was_behind_is_asked_again() -> None:
    leader = Leader(state(1))
    leader.answer(joining(leader, 2), Declined.FENCED)
    leader.fetch(2, 10)
    again = leader.wait(STALE_RETRY_MS)
    assert again is not None
    assert again.isr == (Member(1), Member(2, 102))


def test_a_late_answer_to_an_earlier_attempt_settles_nothing() -> None:
    leader = Leader(state(1))
    first = joining(leader, 2)
    leader.answer(first, UNANSWERED)
    second = leader.wait(RETRY_MS)
    assert leader.answer(first, Declined.STALE_VERSION) is None
    assert leader.answer(second, Altered(state(1, 2), 8)) is None
    assert leader.core.recorded == Altered(state(1, 2), 8)
    leader.answer(second, Altered(state(1, 2, 3), 7))
    assert leader.core.recorded == Altered(state(1, 2), 8)


def test_it_tells_the_controller_that_it_lives_when_that_remembers_others_in_doubt() -> None:
    leader = Leader(state(1, 2))
    leader.fetch(2, 10)
    recorded = replace(state(1, 2), last_known_eligible_leaders=(3,))
    outcome = leader.core.on_state(recorded, 8, 0)
    assert outcome.proposal is not None
    assert outcome.proposal.isr == (Member(1), Member(2))
    assert leader.answer(outcome.proposal, Altered(state(1, 2), 9)) is None


def test_nothing_is_proposed_while_the_session_is_in_doubt() -> None:
    leader = Leader(state(1, 3))
    leader.core.is_suspended = True
    assert leader.fetch(2, 10) is None
    leader.write()
    assert leader.wait(2 * LAG_MS) is None
    leader.core.is_suspended = False
    assert leader.wait(0) is not None


def test_a_later_epoch_ends_it_and_an_older_state_is_ignored() -> None:
    leader = Leader(state(1, 2))
    leader.core.on_state(state(1, epoch=EPOCH + 1), 7, 0)
    assert not leader.core.is_over
    leader.core.on_state(state(1, epoch=EPOCH + 1), 8, 0)
    assert leader.core.is_over
    assert leader.wait(2 * LAG_MS) is None
    other = Leader(state(1, 2))
    other.core.on_state(PartitionState(2, EPOCH, (2,), (1, 2, 3)), 8, 0)
    assert other.core.is_over


def test_replicas_come_and_go() -> None:
    leader = Leader(state(1, 2))
    leader.core.on_state(state(1, replicas=(1, 4)), 8, 0)
    leader.live[4] = 104
    assert isinstance(leader.ask(2, 10), Refused)
    assert joining(leader, 4).isr == (Member(1), Member(4, 104))


# Fetches that are refused


def problem_of(outcome: Outcome | EpochEnd | Refused) -> Problem | None:
    return outcome.problem if isinstance(outcome, Refused) else None


def test_a_fetch_of_another_epoch_or_life_is_refused_and_acknowledges_nothing() -> None:
    leader = Leader(state(1, 2))
    assert problem_of(leader.ask(2, 10, epoch=EPOCH - 1)) is Problem.FENCED_LEADER_EPOCH
    assert problem_of(leader.ask(2, 10, epoch=EPOCH + 1)) is Problem.UNKNOWN_LEADER_EPOCH
    assert problem_of(leader.ask(2, 10, broker_epoch=101)) is Problem.NOT_LEADER
    assert problem_of(leader.ask(9, 10)) is Problem.UNKNOWN_LEADER_EPOCH
    assert leader.high_watermark == 0
    leader.fetch(2, 5, broker_epoch=203)
    assert problem_of(leader.ask(2, 10)) is Problem.NOT_LEADER
    assert leader.high_watermark == 5


def test_a_log_that_parts_from_ours_acknowledges_nothing() -> None:
    leader = Leader(state(1, 2))
    leader.log.move_start(2)
    assert leader.ask(2, 10, last=EPOCH - 1) == EpochEnd(EPOCH - 2, 10)
    assert leader.ask(2, 12, last=EPOCH - 2) == EpochEnd(EPOCH - 2, 10)
    assert problem_of(leader.ask(2, 1, last=EPOCH - 2)) is Problem.OFFSET_OUT_OF_RANGE
    assert problem_of(leader.ask(2, 11)) is Problem.OFFSET_OUT_OF_RANGE
    assert leader.high_watermark == 0
    leader.ask(2, 8, last=EPOCH - 2)
    assert leader.high_watermark == 8
