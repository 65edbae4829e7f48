"""Bytes from elsewhere as values: whatever is wrong with them is a ValueError."""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """msgspec's, of JSON or MessagePack."""

    def decode(self, data: bytes, /) -> T_co: ...


def decoded(decoder: Decoder[T_co], data: bytes) -> T_co:
    """msgspec's own errors are ValueErrors, but for nesting that its recursion cannot follow."""
    try:
        return decoder.decode(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
