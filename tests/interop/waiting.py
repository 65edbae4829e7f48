"""Waiting for what a broker and its clients do in their own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Returns as soon as the condition holds; fails, naming `what`, if it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"still not after {timeout_s} s: {what}"
        time.sleep(0.01)
