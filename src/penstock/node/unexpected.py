"""Exceptions that nobody expected in work that no request waits for: callbacks, timers, tasks, jobs of a pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.health import Health

logger = logging.getLogger(__name__)


@contextmanager
def reported(loop: asyncio.AbstractEventLoop, health: Health, metrics: BrokerMetrics) -> Iterator[None]:
    """A bug is logged, counted and shown by /health until the node is started anew: what the interrupted work would

    have done is not done, and somebody may wait for it for ever. Where a connection had it, that one alone is closed,
    so that no client can make a node unwell.
    """

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        metrics.unexpected_errors += 1
        logger.error("node.bug", exc_info=error, extra={"why": context["message"], "do": "report it, with these lines"})
        if "transport" not in context:
            health.failing(
                "internal", f"a bug interrupted some work ({error!r}). The log has the traceback; restart this node"
            )

    before = loop.get_exception_handler()
    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)
