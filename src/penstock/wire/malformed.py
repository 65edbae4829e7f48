"""Bytes that are not what the protocol says they are."""

from __future__ import annotations

from penstock.errors import PenstockError, Problem


class Malformed(PenstockError):
    """Nothing after such bytes can be trusted, so the connection ends; the text is for the log."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(Problem.INVALID_REQUEST, f"{where}: {what}")
