"""Index files: what is saved comes back, and what is damaged is not believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.disk.power import PowerCutDisk

from penstock.storage.core.blocks import pack_block, unpack_blocks
from penstock.storage.core.index_entries import OFFSETS, TIMESTAMPS
from penstock.storage.index import SparseIndex

PATH = "/x.index"
ENTRIES = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 5000)), max_size=40)


def filled(index: SparseIndex, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries, key, position = [], 0, 0
    for key_step, position_step in steps:
        key, position = key + key_step, position + position_step
        index.add(key, position)
        entries.append((key, position))
    return entries


@given(ENTRIES, st.integers(0, 40_000))
def test_floor_is_the_last_entry_not_beyond(steps: list[tuple[int, int]], key: int) -> None:
    index = SparseIndex(PATH, OFFSETS)
    entries = filled(index, steps)
    assert index.floor(key) == max((entry for entry in entries if entry[0] <= key), default=None)


@given(ENTRIES, st.lists(st.integers(0, 40), max_size=4), st.sampled_from([OFFSETS, TIMESTAMPS]))
def test_what_was_saved_in_parts_is_loaded_whole(steps: list[tuple[int, int]], saves: list[int], kind: str) -> None:
    disk = PowerCutDisk()
    index = SparseIndex(PATH, kind)
    entries, key, position = [], 0, 0
    for place, (key_step, position_step) in enumerate(steps):
        key, position = key + key_step, position + position_step
        index.add(key, position)
        entries.append((key, position))
        if place in saves and (block := index.take_block(position + 1)) is not None:
            block.write(disk)
    if (last := index.take_block(position + 2)) is not None:
        last.write(disk)
    assert index.take_block(position + 2) is None, "nothing new"
    loaded = SparseIndex.load(disk, PATH, kind)
    assert loaded.covers == position + 2
    assert [loaded.floor(key) for key, _ in entries] == entries


@given(ENTRIES, ENTRIES, st.data())
def test_a_damaged_file_is_trusted_up_to_the_damage_only(
    first: list[tuple[int, int]], second: list[tuple[int, int]], data: st.DataObject
) -> None:
    disk = PowerCutDisk()
    index = SparseIndex(PATH, OFFSETS)
    before = filled(index, first)
    covered = [before[-1][1] + 1 if before else 1]
    block = index.take_block(covered[0])
    assert block is not None
    block.write(disk)
    for key, position in before:
        index.add(10**6 + key, 10**6 + position)
    block = index.take_block(10**7)
    assert block is not None
    block.write(disk)
    content = bytearray(disk.open(PATH).read(0, 10**6))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    disk.replace(PATH, bytes(content))
    loaded = SparseIndex.load(disk, PATH, OFFSETS)
    assert loaded.covers in (0, covered[0])
    if loaded.covers:
        assert [loaded.floor(key) for key, _ in before] == before
    # And what is saved next repairs the file.
    repaired = loaded.take_block(10**7)
    assert repaired is not None
    repaired.write(disk)
    assert SparseIndex.load(disk, PATH, OFFSETS).covers == 10**7


@given(ENTRIES, st.integers(0, 100_000))
def test_after_a_cut_the_file_is_written_anew(steps: list[tuple[int, int]], position: int) -> None:
    disk = PowerCutDisk()
    index = SparseIndex(PATH, OFFSETS)
    entries = filled(index, steps)
    block = index.take_block(200_001)
    assert block is not None
    block.write(disk)
    index.cut(position)
    block = index.take_block(position)
    assert block is not None
    block.write(disk)
    loaded = SparseIndex.load(disk, PATH, OFFSETS)
    assert (loaded.covers, len(loaded)) == (position, sum(entry[1] < position for entry in entries))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_blocks(garbage: bytes) -> None:
    blocks = unpack_blocks(garbage)
    assert (blocks.payloads, blocks.covers, blocks.size) == ([], 0, 0)


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(0, 100)), max_size=5))
def test_blocks_round_trip(rows: list[tuple[bytes, int]]) -> None:
    rows.sort(key=lambda row: row[1])
    packed = b"".join(pack_block(payload, covers) for payload, covers in rows)
    blocks = unpack_blocks(packed)
    assert [bytes(payload) for payload in blocks.payloads] == [payload for payload, _ in rows]
    assert blocks.size == len(packed)
