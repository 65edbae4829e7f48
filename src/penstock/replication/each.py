"""The same for many, none of whom has to do with the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def each(waiting: deque[T], act: Callable[[T], None]) -> None:
    """On the event loop. A bug that one meets is raised, and those behind it have their turn all the same, a bit later.

    Raised there it reaches the loop, which tells of it.
    """
    try:
        while waiting:
            act(waiting.popleft())
    finally:
        if waiting:
            asyncio.get_running_loop().call_soon(each, waiting, act)
