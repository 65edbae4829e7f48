"""What is missing in the usage of a cluster."""

from __future__ import annotations

from penstock.pipelines.core.usage_gaps import Gap, Hole, Life, Why, find_gaps


def life(node: int, epoch: int, from_ms: int, to_ms: int, **more: bool) -> Life:
    facts = {"has_first": True, "has_last": True, "gap_before": False, **more}
    return Life(node, epoch, from_ms, to_ms, **facts)


def test_lives_that_ended_well_and_one_that_goes_on_have_no_gap() -> None:
    lives = [life(1, 5, 0, 100), life(1, 7, 120, 900, has_last=False), life(2, 6, 50, 60)]
    assert find_gaps(lives, [], 900) == []


def test_a_node_that_was_killed_lacks_what_it_did_until_it_was_back() -> None:
    lives = [life(1, 7, 120, 200, gap_before=True), life(1, 5, 0, 100, has_last=False)]
    assert find_gaps(lives, [], 0) == [Gap(1, 5, 100, 120, None, Why.KILLED)]


def test_a_life_that_left_nothing_shows_by_the_one_behind_it() -> None:
    lives = [life(1, 5, 0, 100), life(1, 9, 150, 200, gap_before=True)]
    assert find_gaps(lives, [], 0) == [Gap(1, 5, 100, 150, None, Why.UNSEEN)]
    assert find_gaps(lives[1:], [], 0) == [Gap(1, 9, None, 150, None, Why.UNSEEN)]


def test_missing_events() -> None:
    lives = [life(1, 5, 30, 100, has_first=False), life(2, 6, 0, 50, has_last=False)]
    assert find_gaps(lives, [Hole(1, 5, 40, 60, 2)], 51) == [
        Gap(1, 5, None, 30, None, Why.NO_BEGINNING),
        Gap(1, 5, 40, 60, 2, Why.HOLE),
        Gap(2, 6, 50, None, None, Why.SILENT),
    ]
