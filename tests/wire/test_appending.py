"""What answers are made of takes whatever callers have at hand, compiled or not."""

from __future__ import annotations

import pytest

from penstock.wire.appending import append_compact_bytes


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_bytes_of_any_kind(value: bytes | bytearray | memoryview) -> None:
    out = bytearray()
    append_compact_bytes(out, value)
    append_compact_bytes(out, None)
    assert out == b"\x04abc\x00"
