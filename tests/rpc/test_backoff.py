"""When a peer is dialled again."""

from __future__ import annotations

from penstock.rpc.core.backoff import FIRST_MS, MAX_MS, Backoff


def pauses(backoff: Backoff, count: int, now_ms: int = 0) -> list[int]:
    """Between attempts that fail at once."""
    found = []
    for _ in range(count):
        due_ms = backoff.next_dial_ms(now_ms)
        found.append(due_ms - now_ms)
        now_ms = due_ms
    return found


def test_the_first_attempt_is_made_at_once_and_the_pause_doubles_up_to_a_limit() -> None:
    assert pauses(Backoff(), 8) == [0, FIRST_MS, 100, 200, 400, 800, MAX_MS, MAX_MS]


def test_a_pause_that_has_passed_already_is_not_waited_for() -> None:
    backoff = Backoff()
    pauses(backoff, 5)
    assert backoff.next_dial_ms(1_000_000) == 1_000_000


def test_an_answer_starts_it_anew_but_never_without_any_pause() -> None:
    backoff = Backoff()
    pauses(backoff, 5, now_ms=1000)
    backoff.proven()
    last_ms = backoff.next_dial_ms(5000)
    assert (last_ms, backoff.next_dial_ms(5000)) == (5000, 5000 + 2 * FIRST_MS)


def test_a_peer_that_registered_is_dialled_at_once() -> None:
    backoff = Backoff()
    pauses(backoff, 5)
    backoff.forget()
    assert pauses(backoff, 3) == [0, FIRST_MS, 100]
