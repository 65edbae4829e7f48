"""What a start needs of the store, tried again while the store is out of reach: a moment's fault ends no start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.cluster.metadata import connected
from penstock.coordination.interface import Store
from penstock.errors import PenstockError, Problem

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def patiently(store: Store, attempt: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """`attempt` may have been carried out in part, or wholly, when it is made again. Raises what it raises: anything

    but STORE_UNAVAILABLE at once, that when it has lasted for `patience_s`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while True:
        try:
            return await attempt()
        except PenstockError as error:
            if error.problem is not Problem.STORE_UNAVAILABLE or loop.time() >= deadline:
                raise
            logger.warning("start.waits", extra={"why": str(error)})
            last = error
        try:
            async with asyncio.timeout_at(deadline):
                await connected(store)
        except TimeoutError:
            raise last from None
