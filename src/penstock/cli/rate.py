"""Bytes a second, as an operator writes them: 20MB/s."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import typer

from penstock.units import GIB, KIB, MIB

_FORM = re.compile(r"(\d+(?:\.\d+)?) ?([kmg]i?)?b?(?:/s)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": KIB, "mi": MIB, "gi": GIB}
_NONE = "none"
# Less would take longer for a batch than anybody waits.
_AT_LEAST = KIB
_WANTED = "a rate is, for example, 500kB/s, 20MB/s or 1GiB/s"


@dataclass(frozen=True, slots=True)
class Rate:
    # 0: none.
    bytes_a_second: int

    @classmethod
    def parse(cls, text: str | Self) -> Self:
        """Fails the command for what is none. A default comes parsed already."""
        if not isinstance(text, str):
            return text
        if text.strip().lower() == _NONE:
            return cls(0)
        form = _FORM.fullmatch(text.strip())
        if form is None:
            raise typer.BadParameter(f"{text!r}: {_WANTED}")
        rate = int(float(form[1]) * _UNITS[(form[2] or "").lower()])
        if not _AT_LEAST <= rate < 2**63:
            raise typer.BadParameter(f"{text!r}: at least {_AT_LEAST} bytes a second, or {_NONE}")
        return cls(rate)

    def __str__(self) -> str:
        return f"{self.bytes_a_second / 1e6:,.1f} MB/s" if self.bytes_a_second else _NONE


def bytes_a_second(rate: Rate | None) -> int:
    return 0 if rate is None else rate.bytes_a_second
