"""Which damage to a journal is a torn tail, and which is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.core.frames import Frame, FrameError, frame, read_frames

FIRST, SECOND, THIRD = frame(7, b"first"), frame(8, b""), frame(9, b"third" * 10)


def test_frames_are_read_back() -> None:
    data = FIRST + SECOND + THIRD
    assert read_frames(data) == ([Frame(7, b"first"), Frame(8, b""), Frame(9, b"third" * 10)], len(data))
    assert read_frames(b"") == ([], 0)


@given(st.integers(0, len(THIRD) - 1), st.integers(0, len(THIRD)))
def test_a_torn_last_frame_is_left_out(kept: int, zeros: int) -> None:
    data = FIRST + SECOND + THIRD[:kept] + bytes(zeros)
    assert read_frames(data) == ([Frame(7, b"first"), Frame(8, b"")], len(FIRST + SECOND))


@given(st.integers(0, len(FIRST + SECOND) - 1), st.integers(1, 255))
def test_damage_before_a_whole_frame_is_an_error(position: int, flip: int) -> None:
    data = bytearray(FIRST + SECOND + THIRD)
    data[position] ^= flip
    with pytest.raises(FrameError, match="damaged at byte"):
        read_frames(bytes(data))


def test_a_missing_frame_is_an_error() -> None:
    with pytest.raises(FrameError, match="frame 9 at byte 25 follows frame 7"):
        read_frames(FIRST + THIRD)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_torn_tail(data: bytes) -> None:
    assert read_frames(FIRST + data)[0][0] == Frame(7, b"first")
