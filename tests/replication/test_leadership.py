"""What a leader counts as committed, and whom it wants in the ISR."""

from __future__ import annotations

from msgspec.structs import replace
from tests.replication.leader import EPOCH, LAG_MS, Leader, joining, state
from tests.simulation.log import Entry, plain

from penstock.replication.core.in_sync import RETRY_MS, Altered, Declined, Member, Proposal
from penstock.replication.core.leadership import FollowerFetch, Outcome, Standing

# The high watermark


def test_alone_it_commits_what_it_has() -> None:
    leader = Leader(state(1, replicas=(1,)))
    assert leader.high_watermark == 10
    assert leader.write()
    assert leader.high_watermark == 11
    assert not leader.core.advance(11, 0)
    assert leader.core.tick(LAG_MS * 2) == Outcome(False, None)


def test_the_slowest_member_says_what_is_committed() -> None:
    leader = Leader(state(1, 2, 3))
    leader.write(2)
    leader.fetch(2, 12)
    assert leader.high_watermark == 0
    leader.fetch(3, 11)
    assert leader.high_watermark == 11
    leader.fetch(3, 12)
    assert leader.high_watermark == 12


def test_it_counts_itself_with_what_is_durable() -> None:
    leader = Leader(state(1, 2))
    leader.log.add(Entry(EPOCH, plain("a")))
    leader.fetch(2, 11)
    assert leader.high_watermark == 10
    assert leader.core.advance(11, 0)
    assert leader.high_watermark == 11


def test_it_never_goes_back_by_what_comes_late() -> None:
    leader = Leader(state(1, 2))
    leader.write(4)
    leader.fetch(2, 13)
    leader.fetch(2, 11)
    assert leader.high_watermark == 13
    leader.fetch(2, 14, broker_epoch=202)
    leader.fetch(2, 12, broker_epoch=203)
    assert leader.high_watermark == 14


def test_it_stands_still_while_the_isr_is_too_small() -> None:
    leader = Leader(state(1, min_isr=2), high_watermark=6)
    leader.write()
    assert leader.high_watermark == 6
    assert not leader.core.has_enough_in_sync
    leader.core.on_state(state(1, 2, min_isr=2), 8, 0)
    assert leader.core.has_enough_in_sync
    leader.fetch(2, 11)
    assert leader.high_watermark == 11


def test_it_stands_still_until_the_controller_remembers_nobody_else() -> None:
    """One that is remembered may have led in a later epoch than that of the ten records, and win by that."""
    leader = Leader(replace(state(1, 2), last_known_eligible_leaders=(3,)), high_watermark=6)
    leader.fetch(2, 10)
    assert (leader.high_watermark, leader.core.others_in_sync) == (6, None)
    leader.answer(leader.wait(0), Altered(state(1, 2), 8))
    assert (leader.high_watermark, leader.core.others_in_sync) == (10, {2})
    proposal = leader.core.on_state(replace(state(1), last_known_eligible_leaders=(2,)), 9, 0).proposal
    leader.write()
    assert leader.high_watermark == 10
    leader.answer(proposal, Altered(state(1), 10))
    assert leader.high_watermark == 11


def test_an_addition_that_is_not_recorded_yet_counts_for_the_watermark_but_not_for_min_isr() -> None:
    leader = Leader(state(1, min_isr=2), high_watermark=6)
    proposal = joining(leader, 2)
    assert leader.high_watermark == 6
    leader.answer(proposal, Altered(state(1, 2, min_isr=2), 8))
    assert leader.high_watermark == 10
    leader = Leader(state(1))
    joining(leader, 2)
    leader.live.clear()
    leader.write()
    assert leader.high_watermark == 10


def test_a_member_counts_until_its_removal_is_recorded() -> None:
    leader = Leader(state(1, 2))
    leader.write()
    proposal = leader.wait(LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (Member(1),)
    assert leader.high_watermark == 0
    leader.answer(proposal, Altered(state(1), 8))
    assert leader.high_watermark == 11


def test_a_member_that_has_lost_what_is_committed_leaves_at_once_and_comes_back_when_it_has_it() -> None:
    leader = Leader(state(1, 2), high_watermark=8)
    leader.fetch(2, 10)
    assert leader.high_watermark == 10
    leader.live[2] = 112
    proposal = leader.fetch(2, 7, broker_epoch=112)
    assert proposal is not None and (proposal.isr, proposal.lost) == ((Member(1),), (2,))
    leader.answer(proposal, Altered(state(1), 8))
    back = leader.fetch(2, 10, broker_epoch=112)
    assert back is not None and back.isr == (Member(1), Member(2, 112))


def test_an_eligible_one_that_has_lost_what_is_committed_is_told_of_once() -> None:
    before = replace(state(1, min_isr=2), eligible_leaders=(2, 3))
    leader = Leader(before, high_watermark=8)
    assert leader.fetch(3, 8) is None
    proposal = leader.fetch(2, 7)
    assert proposal is not None and (proposal.isr, proposal.lost) == ((Member(1),), (2,))
    assert leader.answer(proposal, Altered(replace(before, eligible_leaders=(3,)), 8)) is None
    assert leader.fetch(2, 7) is None


def test_a_follower_that_is_about_to_join_is_waited_for() -> None:
    leader = Leader(state(1))
    leader.core.is_suspended = True
    leader.fetch(2, 10)
    leader.write()
    assert leader.high_watermark == 10
    leader.fetch(2, 11)
    assert leader.high_watermark == 11
    leader.write()
    leader.wait(LAG_MS + 1)
    assert leader.high_watermark == 12


def test_a_dead_follower_is_not_waited_for() -> None:
    leader = Leader(state(1))
    leader.core.is_suspended = True
    leader.fetch(2, 10)
    del leader.live[2]
    leader.write()
    assert leader.high_watermark == 11


def test_the_latest_offset_is_known_when_all_that_an_earlier_leader_may_have_shown_is_committed() -> None:
    leader = Leader(state(1, 2), high_watermark=6)
    assert not leader.core.latest_is_known
    leader.fetch(2, 9)
    assert not leader.core.latest_is_known
    leader.fetch(2, 10)
    assert leader.core.latest_is_known


def test_an_append_is_committed_or_waits() -> None:
    leader = Leader(state(1, 2, min_isr=2))
    leader.write()
    assert leader.core.standing(11) is Standing.WAITING
    leader.fetch(2, 11)
    assert leader.core.standing(11) is Standing.COMMITTED
    leader.core.on_state(state(1, min_isr=2), 8, 0)
    assert leader.core.standing(11) is Standing.COMMITTED_BELOW_MIN_ISR
    assert leader.core.standing(12) is Standing.WAITING


def test_records_are_deleted_when_every_live_replica_has_deleted_them() -> None:
    leader = Leader(state(1, 2, 3))
    leader.log.move_start(4)
    leader.core.on_fetch(FollowerFetch(2, 102, EPOCH, 10, -1, 3), 0)
    leader.core.on_fetch(FollowerFetch(3, 103, EPOCH, 10, -1, 2), 0)
    assert leader.core.low_watermark() == 2
    del leader.live[3]
    assert leader.core.low_watermark() == 3


# Joining


def test_who_has_everything_is_proposed_with_its_broker_epoch() -> None:
    leader = Leader(state(1, 3))
    assert joining(leader, 2) == Proposal(EPOCH, 7, (Member(1), Member(2, 102), Member(3)), 1)


def test_it_needs_what_is_committed() -> None:
    leader = Leader(state(1))
    leader.write(2)
    assert leader.fetch(2, 11) is None
    assert leader.fetch(2, 12) is not None


def test_it_needs_what_an_earlier_leader_may_have_committed() -> None:
    leader = Leader(state(1, 3), high_watermark=4)
    assert leader.fetch(2, 9) is None
    assert leader.fetch(2, 10) is not None


def test_only_a_live_broker_in_its_admitted_life_joins() -> None:
    leader = Leader(state(1), live={2: 102})
    assert leader.fetch(3, 10) is None
    assert leader.fetch(2, 10, broker_epoch=202) is None
    leader.live[2] = 202
    assert leader.fetch(2, 10, broker_epoch=202) is not None


def test_who_lags_by_too_many_messages_does_not_join() -> None:
    leader = Leader(state(1, min_isr=2), high_watermark=10, max_messages=5)
    leader.write(6)
    assert leader.fetch(2, 10) is None
    assert leader.fetch(2, 11) is not None


def test_a_declined_follower_is_proposed_again_after_a_while() -> None:
    leader = Leader(state(1))
    leader.answer(joining(leader, 2), Declined.INELIGIBLE_REPLICA)
    assert leader.fetch(2, 10) is None
    renewal = leader.wait(RETRY_MS)
    assert renewal is not None
    assert renewal.isr == (Member(1),)
    leader.answer(renewal, Altered(state(1), 8))
    assert leader.fetch(2, 10) is None
    leader.now_ms += RETRY_MS
    assert leader.fetch(2, 10) is not None


# Leaving


def test_who_has_not_been_at_the_end_for_too_long_leaves() -> None:
    leader = Leader(state(1, 2, 3))
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    leader.write()
    leader.now_ms = LAG_MS
    leader.fetch(2, 11)
    assert leader.wait(0) is None
    proposal = leader.wait(1)
    assert proposal is not None
    assert proposal.isr == (Member(1), Member(2))


def test_who_is_always_a_little_behind_stays() -> None:
    leader = Leader(state(1, 2))
    for _ in range(5):
        leader.now_ms += LAG_MS // 2
        leader.write()
        leader.fetch(2, leader.log.end_offset - 1)
        assert leader.wait(0) is None


def test_who_was_taken_out_comes_back_by_a_fetch_alone() -> None:
    leader = Leader(state(1, 2))
    leader.fetch(2, 10)
    assert leader.core.on_state(state(1), 8, 0) == Outcome(False, None)
    leader.write()
    assert leader.high_watermark == 11
    assert leader.wait(RETRY_MS) is None
    assert leader.fetch(2, 11) is not None


def test_nobody_lags_where_nothing_is_written() -> None:
    leader = Leader(state(1, 2))
    leader.fetch(2, 10)
    assert leader.wait(3 * LAG_MS) is None
    leader.write()
    assert leader.wait(0) is not None


def test_who_lags_by_too_many_messages_leaves() -> None:
    leader = Leader(state(1, 2, 3), max_messages=5)
    leader.write(5)
    leader.fetch(2, 10)
    assert leader.wait(0) is None
    leader.write(1)
    proposal = leader.wait(0)
    assert proposal is not None
    assert proposal.isr == (Member(1), Member(3))
