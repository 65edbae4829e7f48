from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.core.key_map import KeyMap
from penstock.units import KIB, MIB


@given(st.lists(st.binary(max_size=2), max_size=300))
def test_it_knows_the_newest_offset_of_each_key(keys: list[bytes]) -> None:
    known = KeyMap(64 * KIB)
    expected: dict[bytes, int] = {}
    for offset, key in enumerate(keys):
        known.put(key, offset)
        expected[key] = offset
    assert {key: known.newest(key) for key in expected} == expected
    assert len(known) == len(expected)
    assert known.newest(b"never") is None


def test_it_grows_to_its_limit_and_no_further() -> None:
    tracemalloc.start()
    known = KeyMap(MIB)
    offset = 0
    while not known.is_full:
        known.put(b"%d" % offset, offset)
        offset += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * MIB
    assert offset == len(known) == 3 * 32 * KIB // 4
    assert all(known.newest(b"%d" % number) == number for number in range(offset))
    assert known.newest(b"%d" % offset) is None


def test_a_full_map_still_takes_newer_offsets_of_its_keys() -> None:
    known = KeyMap(0)
    offset = 0
    while not known.is_full:
        known.put(b"%d" % offset, offset)
        offset += 1
    assert known.put(b"0", offset)
    assert known.newest(b"0") == offset


def test_a_full_map_refuses_a_new_key_and_keeps_what_it_has() -> None:
    known = KeyMap(0)
    taken = sum(known.put(b"%d" % number, number) for number in range(5000))
    assert taken == len(known) == 768
    assert [known.newest(b"%d" % number) for number in (0, 767, 768, 4999)] == [0, 767, None, None]
