"""The journal's bytes: what was written is read, and nothing else is."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from tests.storage.batches import batch_of

from penstock.storage.core.journal_entry import (
    ENTRY_BYTES,
    PAGE_BYTES,
    Lap,
    Piece,
    decode_entry,
    decode_lap,
    encode_entry,
    encode_lap,
    entry_size,
    stated_size,
)
from penstock.storage.core.replay import JournaledPiece, Replay
from penstock.wire.batch import read_header, stamp

NAME, OTHER_NAME = b"n" * 16, b"o" * 16
TOPIC_ID = UUID(int=7)
OFFSETS = st.integers(0, 2**62)
PIECES = st.builds(
    Piece, st.uuids(), st.integers(0, 2**31 - 1), OFFSETS, st.integers(0, 9), OFFSETS, OFFSETS, st.binary(max_size=900)
)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**63))
def test_a_lap_is_read_as_it_was_written(name: bytes, first_sequence: int) -> None:
    page = encode_lap(Lap(name, first_sequence))
    assert len(page) == PAGE_BYTES
    assert decode_lap(page) == Lap(name, first_sequence)


@given(st.integers(0, 287), st.integers(1, 255))
def test_a_damaged_lap_is_none(bit_place: int, other: int) -> None:
    page = bytearray(encode_lap(Lap(NAME, 12)))
    page[bit_place // 8] ^= other
    assert decode_lap(bytes(page)) is None


@given(st.integers(0, 2**63), st.lists(PIECES, max_size=9), st.binary(max_size=50))
def test_an_entry_is_read_as_it_was_written(sequence: int, pieces: list[Piece], behind: bytes) -> None:
    data = encode_entry(NAME, sequence, pieces)
    assert len(data) % PAGE_BYTES == 0
    assert len(data) == entry_size(sum(len(piece.data) for piece in pieces), len(pieces))
    entry = decode_entry(data + behind, NAME)
    assert entry is not None
    assert (entry.sequence, entry.pieces, entry.size) == (sequence, pieces, len(data))


@given(st.lists(PIECES, min_size=1, max_size=5), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_flipped_bit_ends_an_entry(pieces: list[Piece], where: float, other: int) -> None:
    data = bytearray(encode_entry(NAME, 3, pieces))
    used = 36 + sum(52 + len(piece.data) for piece in pieces)
    data[int(where * used)] ^= other
    assert decode_entry(bytes(data), NAME) is None


@given(st.lists(PIECES, min_size=1, max_size=5), st.floats(0, 1, exclude_max=True))
def test_an_entry_that_was_not_written_to_its_end_is_none(pieces: list[Piece], part: float) -> None:
    data = encode_entry(NAME, 3, pieces)
    used = 36 + sum(52 + len(piece.data) for piece in pieces)
    assert decode_entry(data[: int(part * used)], NAME) is None


def test_an_entry_of_another_lap_is_none() -> None:
    data = encode_entry(OTHER_NAME, 3, [Piece(TOPIC_ID, 0, 0, 0, 0, 0, b"x")])
    assert decode_entry(data, NAME) is None
    assert stated_size(data, NAME) is None


def test_no_entry_is_believed_to_be_larger_than_any_that_is_written() -> None:
    head = bytearray(encode_entry(NAME, 3, []))
    head[24:28] = (ENTRY_BYTES + 1).to_bytes(4, "big")
    assert stated_size(bytes(head), NAME) is None


@given(st.binary(max_size=200))
def test_garbage_is_no_entry_and_no_lap(garbage: bytes) -> None:
    assert decode_entry(garbage, NAME) is None
    assert decode_entry(NAME + garbage, NAME) is None
    assert decode_lap(garbage) is None


def piece_of(position: int, *batches: bytes, base_offset: int | None = None) -> Piece:
    if base_offset is None:
        base_offset = read_header(batches[0]).base_offset
    return Piece(TOPIC_ID, 0, 100, 0, position, base_offset, b"".join(batches))


def stamped(base_offset: int, *values: bytes, epoch: int = 0) -> bytes:
    batch = bytearray(batch_of(*values))
    stamp(batch, base_offset, epoch)
    return bytes(batch)


def found(replay: Replay, position: int, expected_offset: int, generation: int = 0, epoch: int = 0) -> list[bytes]:
    return [bytes(batch) for _, batch in replay.run_from(100, generation, position, expected_offset, epoch)]


def test_a_run_goes_over_the_borders_of_pieces() -> None:
    first, second, third = stamped(5, b"a", b"b"), stamped(7, b"c"), stamped(8, b"d")
    at = len(first) + len(second)
    replay = Replay([JournaledPiece(2, piece_of(at, third)), JournaledPiece(1, piece_of(0, first, second))])
    assert found(replay, 0, 5) == [first, second, third]
    assert found(replay, len(first), 7) == [second, third], "also from the middle of a piece"
    assert found(replay, 0, 4) == [], "another offset is expected there"
    assert found(replay, 0, 5, generation=1) == [], "compaction has written the segment anew"
    assert found(replay, 1, 5) == []


def test_offsets_that_a_leader_compacted_away_are_missing_in_a_run_but_only_where_they_were() -> None:
    first, second, third = stamped(5, b"a"), stamped(9, b"b"), stamped(20, b"c")
    at = len(first) + len(second)
    pieces = [piece_of(0, first, second, base_offset=3), piece_of(at, third, base_offset=10)]
    replay = Replay(JournaledPiece(1, piece) for piece in pieces)
    assert found(replay, 0, 3) == [first, second, third]
    assert found(replay, len(first), 6) == [second, third]
    for other in (2, 4, 5):
        assert found(replay, 0, other) == [], "the log did not end there when it was written"
    assert found(replay, at, 20) == []


def test_a_run_ends_where_the_leader_epoch_would_fall() -> None:
    first, second = stamped(5, b"a", epoch=4), stamped(6, b"b", epoch=3)
    replay = Replay([JournaledPiece(1, piece_of(0, first, second))])
    assert found(replay, 0, 5, epoch=4) == [first]
    assert found(replay, 0, 5, epoch=5) == []


def test_the_newest_piece_of_a_place_counts_and_void_ones_do_not() -> None:
    old, new = stamped(5, b"old"), stamped(5, b"new")
    pieces = [JournaledPiece(4, piece_of(0, new)), JournaledPiece(3, piece_of(0, old))]
    assert found(Replay(pieces), 0, 5) == [new]
    assert found(Replay(pieces[1:], void_below=3), 0, 5) == [old]
    assert not Replay(pieces[1:], void_below=4)


def test_a_batch_with_another_checksum_is_not_put_back() -> None:
    sound, damaged = stamped(5, b"a"), bytearray(stamped(6, b"b"))
    damaged[-1] ^= 1
    assert found(Replay([JournaledPiece(1, piece_of(0, sound, bytes(damaged)))]), 0, 5) == [sound]


@given(st.binary(max_size=300))
def test_a_piece_that_holds_no_batches_is_nothing(garbage: bytes) -> None:
    sound = stamped(5, b"a")
    replay = Replay([JournaledPiece(1, piece_of(0, sound, garbage))])
    assert found(replay, 0, 5)[0] == sound
    assert read_header(sound).next_offset == 6
