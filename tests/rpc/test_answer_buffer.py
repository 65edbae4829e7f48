"""Frames come out as they went in, however they were cut; large ones are never moved."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.rpc.core.answer_buffer import READ_BYTES, TRIM_AFTER, AnswerBuffer
from penstock.units import MIB
from penstock.wire.malformed import Malformed

LIMIT = 64 * MIB


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def fill(buffer: AnswerBuffer, data: bytes, most: int = LIMIT) -> list[bytes]:
    """As a transport does: as much as there is space, but no more than `most` at once."""
    taken = []
    while data:
        space = buffer.space()
        size = min(len(space), len(data), most)
        assert size > 0, "a transport that gets no space gives up"
        space[:size] = data[:size]
        data = data[size:]
        buffer.received(size)
        while (frame := buffer.next_frame(LIMIT)) is not None:
            taken.append(bytes(frame))
        buffer.make_room()
    return taken


sizes = st.integers(4, 300) | st.integers(READ_BYTES - 10, READ_BYTES + 10) | st.integers(100_000, 400_000)


@settings(max_examples=60)
@given(lengths=st.lists(sizes, min_size=1, max_size=8), most=st.integers(1000, 500_000) | st.sampled_from((61, LIMIT)))
def test_frames_come_out_as_they_went_in(lengths: list[int], most: int) -> None:
    frames = [bytes([65 + number]) * length for number, length in enumerate(lengths)]
    assert fill(AnswerBuffer(), b"".join(map(framed, frames)), most) == frames


def test_a_large_frame_stays_where_its_first_byte_arrived() -> None:
    """Its bytes are written over by nobody but the transport: seen through a view that was taken early."""
    buffer = AnswerBuffer()
    large = framed(b"a" * (5 * MIB))
    fill(buffer, large)
    first = buffer.space()
    first[:8] = large[:8]
    buffer.received(8)
    assert buffer.next_frame(LIMIT) is None
    buffer.make_room()
    rest = large[8:]
    space = buffer.space()
    assert len(space) == len(rest), "no more than this answer is received, so nothing behind it has to be moved"
    space[:] = rest
    buffer.received(len(rest))
    frame = buffer.next_frame(LIMIT)
    assert frame is not None
    first[4] = ord("x")
    assert frame[0] == ord("x")
    assert bytes(frame[1:]) == large[5:]


def test_the_room_for_a_large_frame_is_used_again_and_goes_back_when_it_is_not_needed() -> None:
    buffer = AnswerBuffer()
    assert buffer.capacity == READ_BYTES
    fill(buffer, framed(bytes(3 * MIB)))
    assert buffer.capacity == 4 * MIB
    fill(buffer, framed(bytes(100)) * (TRIM_AFTER - 1) + framed(bytes(2 * MIB)))
    fill(buffer, framed(bytes(100)) * (TRIM_AFTER - 1))
    assert buffer.capacity == 4 * MIB
    fill(buffer, framed(bytes(100)))
    assert buffer.capacity == READ_BYTES


@pytest.mark.parametrize("length", [-1, 0, 3, LIMIT + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_before_anything_is_waited_for(length: int) -> None:
    with pytest.raises(Malformed, match=f"{length} bytes announced"):
        fill(AnswerBuffer(), struct.pack(">i", length))
