"""Waiting for what a broker and its clients do in their own time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def eventually(
    condition: Callable[[], bool], what: str, timeout_s: float = 20.0, instead: Callable[[], object] | None = None
) -> None:
    """Returns as soon as the condition holds; fails, naming `what` and what there is `instead`, if it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"still not after {timeout_s} s: {what}" + (f"; instead {instead()}" if instead else ""))
        time.sleep(0.01)
