"""Time as tests and nodes see it."""

import asyncio

from penstock.clock import SteppedClock, SystemClock


def test_system_time_is_the_wall_clocks_and_never_goes_back() -> None:
    import time

    clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 1000
    seen = [clock.now_ms() for _ in range(1000)]
    assert seen == sorted(seen)


def test_advance_runs_what_falls_due_in_order() -> None:
    async def scenario() -> None:
        clock = SteppedClock()
        start = clock.now_ms()
        ran: list[tuple[str, int]] = []

        def note(name: str) -> None:
            ran.append((name, clock.now_ms() - start))

        def first() -> None:
            note("first")
            clock.call_at(start + 45_000, lambda: note("armed inside"))

        clock.call_at(start + 60_000, lambda: note("second"))
        clock.call_at(start + 30_000, first)
        clock.call_at(start + 90_000, lambda: note("too late"))
        clock.call_at(start + 40_000, lambda: note("cancelled")).cancel()
        clock.advance(80_000)
        assert [name for name, _ in ran] == ["first", "armed inside", "second"]
        assert all(moment // 1000 == 80 for _, moment in ran)
        assert 80_000 <= clock.now_ms() - start < 81_000

    asyncio.run(scenario())


def test_a_timer_fires_by_itself_and_only_once() -> None:
    async def scenario() -> None:
        clock = SteppedClock()
        fired = asyncio.Event()
        count = 0

        def fire() -> None:
            nonlocal count
            count += 1
            fired.set()

        clock.call_at(clock.now_ms() + 20, fire)
        await asyncio.wait_for(fired.wait(), 5)
        clock.advance(1000)
        assert count == 1

    asyncio.run(scenario())
