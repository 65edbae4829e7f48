"""A thread sees that the event loop stands still, and takes nothing else for it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordination.pulse import MAX_MISSED, Pulse


class Loop:
    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def turn(self) -> None:
        while self.calls:
            self.calls.pop()()


def test_a_loop_that_turns_now_and_then_is_well() -> None:
    loop = Loop()
    pulse = Pulse(loop.calls.append)
    for _ in range(5):
        assert all(pulse.look() for _ in range(MAX_MISSED))
        loop.turn()
        assert pulse.wait(0)


def test_a_loop_that_does_not_turn_for_long_stands_still_until_it_does() -> None:
    loop = Loop()
    pulse = Pulse(loop.calls.append)
    assert [pulse.look() for _ in range(MAX_MISSED + 2)] == [True] * MAX_MISSED + [False] * 2
    assert not pulse.wait(0)
    loop.turn()
    assert pulse.wait(0)
    assert pulse.look()


def test_the_end_of_a_pause_of_everything_is_one_look() -> None:
    """What was asked before the pause was not done, because nothing was."""
    loop = Loop()
    pulse = Pulse(loop.calls.append)
    pulse.look()
    assert pulse.look()
    loop.turn()
    assert all(pulse.look() for _ in range(MAX_MISSED))
