"""A follower's log becomes its leader's, and keeps all that they share."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale import examples
from tests.simulation.log import Entry, SimulatedLog, plain

from penstock.errors import Problem, Refused
from penstock.replication.core.following import (
    FIRST_RETRY_MS,
    RETRY_MS,
    Append,
    Fetch,
    Fetched,
    Following,
    Restart,
    Truncate,
)
from penstock.replication.core.replica_log import divergence
from penstock.storage.core.leader_epochs import EpochEnd

LEADER = 1


def log_of(*epochs: int, start: int = 0) -> SimulatedLog:
    """One record for each epoch named; those of the same epoch and offset are the same."""
    log = SimulatedLog()
    log.restart_at(start)
    for epoch in epochs:
        log.add(Entry(epoch, plain(f"{epoch}/{log.end_offset}")))
    log.sync(log.end_offset)
    return log


def follow(log: SimulatedLog, epoch: int, *, acked: bool = True, high_watermark: int = 0) -> Following:
    return Following(LEADER, epoch, log, waits_for_sync=acked, high_watermark=high_watermark)


def fetch(following: Following, now_ms: int = 0) -> Fetch:
    asked = following.next_fetch(now_ms)
    assert asked is not None
    return asked


def replicate(leader: SimulatedLog, mine: SimulatedLog, following: Following, high_watermark: int) -> list[int]:
    """Fetches until nothing changes; where it was truncated on the way."""
    cuts: list[int] = []
    for turn in range(100):
        asked = fetch(following, turn * RETRY_MS)
        parting = divergence(leader, asked.offset, asked.last_fetched_epoch)
        if isinstance(parting, Refused):
            assert following.on_refused(asked, parting.problem, turn * RETRY_MS)
            restart = following.on_leader_range(asked, leader.start_offset, leader.end_offset)
            assert restart is not None
            mine.restart_at(restart.offset)
            continue
        step = following.on_fetched(asked, Fetched(high_watermark, leader.start_offset, parting))
        if isinstance(step, Truncate):
            assert step.offset < mine.end_offset
            cuts.append(step.offset)
            mine.truncate(step.offset)
            continue
        if isinstance(step, Restart):
            assert step.offset == leader.start_offset
            cuts.append(step.offset)
            mine.restart_at(step.offset)
            continue
        assert isinstance(step, Append)
        before = mine.end_offset
        for entry in leader.read(asked.offset, min(leader.end_offset, asked.offset + 2)):
            assert following.admits(mine.end_offset, entry.epoch)
            mine.add(entry)
        mine.sync(mine.end_offset)
        start = following.on_appended(step)
        if start is not None:
            mine.move_start(start)
        if mine.end_offset == before:
            return cuts
    raise AssertionError("it never ends")


def test_it_fetches_from_its_end_with_the_epoch_of_its_last_record() -> None:
    log = log_of(3, 3, 5)
    log.begin_epoch(6)
    assert fetch(follow(log, 7)) == Fetch(leader_epoch=7, offset=3, last_fetched_epoch=5, log_start=0, attempt=1)
    assert fetch(follow(log_of(start=4), 7))[1:4] == (4, -1, 4)


def test_the_next_fetch_waits_until_what_was_appended_is_durable() -> None:
    log = log_of(1)
    following = follow(log, 1)
    following.on_fetched(fetch(following), Fetched(1, 0))
    log.add(Entry(1, plain("a")))
    assert following.next_fetch(0) is None
    log.sync(log.end_offset)
    assert fetch(following).offset == 2


def test_with_os_what_is_written_counts() -> None:
    log = log_of(1)
    log.add(Entry(1, plain("a")))
    assert fetch(follow(log, 1, acked=False)).offset == 2


def test_one_fetch_at_a_time_and_only_its_answer_counts() -> None:
    following = follow(log_of(1), 1)
    first = fetch(following)
    assert following.next_fetch(0) is None
    assert not following.on_refused(first, None, 0)
    assert following.next_fetch(FIRST_RETRY_MS - 1) is None
    second = fetch(following, FIRST_RETRY_MS)
    assert second != first
    assert following.on_fetched(first, Fetched(0, 0, EpochEnd(0, 0))) is None
    assert not following.on_refused(first, Problem.OFFSET_OUT_OF_RANGE, 0)
    assert following.on_fetched(second, Fetched(1, 0)) == Append(1, 0)


def test_a_fenced_follower_waits_for_a_later_epoch() -> None:
    following = follow(log_of(1), 1)
    following.on_refused(fetch(following), Problem.FENCED_LEADER_EPOCH, 0)
    assert following.is_fenced
    assert following.next_fetch(10 * RETRY_MS) is None


def test_a_leader_that_does_not_know_its_epoch_yet_is_asked_again() -> None:
    following = follow(log_of(1), 1)
    assert not following.on_refused(fetch(following), Problem.UNKNOWN_LEADER_EPOCH, 0)
    assert following.next_fetch(FIRST_RETRY_MS) is not None


def test_it_asks_less_and_less_often_until_there_is_an_answer() -> None:
    following = follow(log_of(1), 1)
    now_ms, pauses = 0, []
    for _ in range(6):
        following.on_refused(fetch(following, now_ms), None, now_ms)
        pauses.append(following.retry_at_ms - now_ms)
        now_ms = following.retry_at_ms
    assert pauses == [25, 50, 100, 200, 200, 200]
    following.on_fetched(fetch(following, now_ms), Fetched(1, 0))
    following.on_refused(fetch(following, now_ms), None, now_ms)
    assert following.retry_at_ms == now_ms + FIRST_RETRY_MS


def test_its_watermark_is_the_leaders_as_far_as_its_log_goes_and_never_goes_back() -> None:
    log = log_of(1, 1, 1)
    following = follow(log, 1, high_watermark=1)
    following.on_appended(Append(9, 0))
    assert following.high_watermark == 3
    following.on_appended(Append(2, 0))
    assert following.high_watermark == 3


def test_its_log_starts_where_the_leaders_does() -> None:
    following = follow(log_of(1, 1, 1), 1)
    assert following.on_appended(Append(3, 2)) == 2
    assert following.on_appended(Append(3, 0)) is None


def test_what_lies_between_its_end_and_the_leaders_start_is_gone() -> None:
    log = log_of(1, 1)
    following = follow(log, 2)
    asked = fetch(following)
    assert following.on_refused(asked, Problem.OFFSET_OUT_OF_RANGE, 0)
    assert following.on_leader_range(asked, 5, 8) == Restart(5)
    assert following.high_watermark == 5


def test_a_range_that_comes_too_late_drops_nothing() -> None:
    log = log_of(1, 1)
    following = follow(log, 2)
    asked = fetch(following)
    following.on_refused(asked, Problem.OFFSET_OUT_OF_RANGE, 0)
    fetch(following, RETRY_MS)
    assert following.on_leader_range(asked, 5, 8) is None


def test_a_batch_that_does_not_follow_or_is_of_a_later_leader_is_not_taken() -> None:
    following = follow(log_of(1, 3), 4)
    assert following.admits(2, 3)
    assert following.admits(2, 4)
    assert not following.admits(1, 3)
    assert following.admits(3, 3), "what is missing was compacted away"
    assert not following.admits(2, 2)
    assert not following.admits(2, 5)


def test_it_goes_back_several_epochs_step_by_step() -> None:
    """KIP-279: each was leader for a while without the other, so neither knows the other's epochs."""
    leader = log_of(1, 1, 3, 3, 5, 5)
    mine = log_of(1, 1, 2, 4, 4, 4, 4)
    leader.begin_epoch(6)
    cuts = replicate(leader, mine, follow(mine, 6), 2)
    assert cuts == [3, 2]
    assert mine.entries == leader.entries


def test_what_is_above_the_watermark_is_kept_where_the_leader_has_it() -> None:
    """KIP-101: a follower knows an old watermark, so truncating to it would lose what it alone may have kept."""
    leader, mine = log_of(1, 1, 1), log_of(1, 1, 1)
    leader.begin_epoch(2)
    assert replicate(leader, mine, follow(mine, 2, high_watermark=1), 1) == []


def test_everything_goes_if_nothing_is_shared() -> None:
    leader, mine = log_of(5, 5), log_of(2, 3)
    leader.begin_epoch(6)
    assert replicate(leader, mine, follow(mine, 6, high_watermark=2), 2) == [0]
    assert mine.entries == leader.entries


def test_what_cannot_be_compared_with_the_leader_goes_with_all_that_is_known_of_its_producers() -> None:
    """The leader has deleted what parts them: a record here that was never committed must not pass for one that was."""
    for records in (1, 2, 4):
        leader, mine = log_of(3, 3, 3, 3, 3), log_of(*[1] * records)
        leader.move_start(1)
        leader.begin_epoch(4)
        following = follow(mine, 4)
        asked = fetch(following)
        parting = divergence(leader, asked.offset, asked.last_fetched_epoch)
        assert not isinstance(parting, Refused)
        assert following.on_fetched(asked, Fetched(5, 1, parting)) == Restart(1)
        mine.restart_at(1)
        assert replicate(leader, mine, following, 5) == []
        assert mine.entries == leader.entries


def test_a_follower_whose_log_is_known_to_be_the_leaders_keeps_it_when_everything_is_deleted() -> None:
    following = follow(log_of(1, 1), 1)
    assert isinstance(following.on_fetched(fetch(following), Fetched(2, 0)), Append)
    assert following.on_fetched(fetch(following), Fetched(2, 2)) == Append(2, 2)


def test_a_log_that_is_known_to_be_committed_stays_though_the_leader_has_deleted_all_of_it() -> None:
    """What is known of its producers tells repetitions apart, should this replica lead next."""
    following = follow(log_of(1, 1), 2, high_watermark=2)
    assert following.on_fetched(fetch(following), Fetched(2, 2)) == Append(2, 2)


def test_a_log_of_which_everything_was_deleted_does_not_go_back_to_a_leader_that_has_not_heard_of_it() -> None:
    """It is in the ISR: without what is committed up to its end, it could lead and give those offsets again."""
    following = follow(log_of(start=5), 3, high_watermark=5)
    assert following.on_fetched(fetch(following), Fetched(5, 3)) == Append(5, 3)


# Leaders in turn, each with some replica's log so far, cut at some place, and records of its own.
HISTORY = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=8)


@settings(max_examples=examples(300))
@given(HISTORY, st.integers(0, 6), st.integers(0, 6))
def test_logs_become_the_same_and_keep_what_they_share(
    history: list[tuple[int, int, int]], leader_start: int, my_start: int
) -> None:
    """Whatever leaders before them wrote, in whatever order the replicas got some of it."""
    logs = [log_of() for _ in range(4)]
    for turn, (replica, kept, written) in enumerate(history):
        log, source = logs[replica], logs[(replica + 1) % 4]
        if kept % 2:
            # It was a follower of another before, and had come so far.
            source.begin_epoch(2 * turn)
            replicate(source, log, follow(log, 2 * turn), 0)
            log.truncate(kept)
        epoch = 2 * turn + 1
        log.begin_epoch(epoch)
        for _ in range(written):
            log.add(Entry(epoch, plain(f"{epoch}/{log.end_offset}")))
        log.sync(log.end_offset)
    leader, mine = logs[0], logs[1]
    shared = 0
    while shared < min(leader.end_offset, mine.end_offset) and leader.entry(shared) == mine.entry(shared):
        shared += 1
    leader.move_start(min(leader_start, leader.end_offset))
    mine.move_start(min(my_start, mine.end_offset))
    leader.begin_epoch(2 * len(history))
    starts = max(leader.start_offset, mine.start_offset)
    cuts = replicate(leader, mine, follow(mine, 2 * len(history)), leader.end_offset)
    assert mine.end_offset == leader.end_offset
    for offset in range(max(mine.start_offset, leader.start_offset), leader.end_offset):
        assert mine.entry(offset) == leader.entry(offset)
    assert starts > shared or all(cut >= shared for cut in cuts)
