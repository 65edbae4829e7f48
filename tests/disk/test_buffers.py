"""Buffers are used again, but never while somebody looks at what is in them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from penstock.disk.buffers import BUFFER_BYTES, MOST_BUFFERS, ReadBuffers
from penstock.units import KIB, MIB


def address_of(view: memoryview) -> int:
    return id(view.obj)


def test_a_buffer_that_nobody_looks_at_is_used_again() -> None:
    buffers = ReadBuffers()
    first = buffers.take(MIB)
    used = address_of(first)
    part = first[100:200]
    del first
    second = buffers.take(MIB)
    assert address_of(second) != used, "a part of it is still looked at"
    del part
    assert address_of(buffers.take(MIB)) == used


def test_the_buffer_that_was_used_last_comes_first() -> None:
    buffers = ReadBuffers()
    first, last = buffers.take(MIB), buffers.take(MIB)
    expected = [address_of(last), address_of(first)]
    del first, last
    for _ in range(3):
        views = [buffers.take(MIB), buffers.take(MIB)]
        assert [address_of(view) for view in views] == expected
        del views[0]
        assert address_of(buffers.take(MIB)) == expected[0]
        del views


@given(st.lists(st.tuples(st.integers(1, 2 * MIB), st.integers(0, 40)), max_size=40))
def test_nobody_gets_what_another_still_has(steps: list[tuple[int, int]]) -> None:
    buffers = ReadBuffers()
    kept: list[tuple[memoryview, int]] = []
    for number, (length, let_go) in enumerate(steps):
        view = buffers.take(length)
        assert len(view) == length
        mark = number % 251
        view[0] = view[-1] = mark
        kept.append((view, mark))
        del view
        if let_go < len(kept):
            del kept[let_go]
        assert all(held[0] == held[-1] == expected for held, expected in kept)


def test_beyond_its_buffers_everybody_gets_memory_of_his_own() -> None:
    buffers = ReadBuffers()
    views = [buffers.take(BUFFER_BYTES) for _ in range(3 * MOST_BUFFERS)]
    assert len({address_of(view) for view in views}) == len(views)


def test_threads_do_not_share_a_buffer() -> None:
    buffers = ReadBuffers()

    def reads(mark: int) -> bool:
        for _ in range(300):
            view = buffers.take(200 * KIB)
            view[0] = view[-1] = mark
            if (view[0], view[-1]) != (mark, mark):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(reads, range(1, 5)))
