from __future__ import annotations

from penstock.telemetry.quiet import Quiet


def test_repeated_lines_of_one_peer_are_held_back_and_counted() -> None:
    quiet = Quiet(interval_ms=1000)
    assert quiet.allow("peer-a", now_ms=0) == 0
    assert quiet.allow("peer-a", now_ms=1) is None
    assert quiet.allow("peer-a", now_ms=999) is None
    assert quiet.allow("peer-b", now_ms=999) == 0
    assert quiet.allow("peer-a", now_ms=1000) == 2
    assert quiet.allow("peer-a", now_ms=2000) == 0


def test_many_peers_cost_bounded_memory() -> None:
    quiet = Quiet(interval_ms=1000, max_keys=2)
    quiet.allow("a", now_ms=0)
    quiet.allow("b", now_ms=1)
    quiet.allow("c", now_ms=2)
    assert quiet.allow("b", now_ms=3) is None
    assert quiet.allow("c", now_ms=3) is None
    assert quiet.allow("a", now_ms=3) == 0


def test_so_many_lines_pass_in_each_interval() -> None:
    quiet = Quiet(interval_ms=1000, lines=2)
    assert [quiet.allow("peer", now_ms) for now_ms in (0, 1, 2, 3)] == [0, 0, None, None]
    assert [quiet.allow("peer", now_ms) for now_ms in (1000, 1001, 1002)] == [2, 0, None]
