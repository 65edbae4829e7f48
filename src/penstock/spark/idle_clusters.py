"""Connections that outlive the task they were made for: the next one in the same process greets and logs in no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.spark.cluster import Cluster
from penstock.spark.core.client_settings import ClientSettings

# As many queries take turns in a process without making connections anew.
MAX_IDLE = 4

# The one that was used longest ago comes first.
_idle: dict[tuple[int, ClientSettings], Cluster] = {}


@contextmanager
def borrowed_cluster(settings: ClientSettings) -> Iterator[Cluster]:
    """One that nobody else uses. Whoever leaves it with an exception, or early, leaves nothing to be used again."""
    # A process that was forked has its parent's connections in memory, which are not for it.
    key = os.getpid(), settings
    cluster = _idle.pop(key, None) or Cluster(settings)
    with ExitStack() as stack:
        stack.callback(cluster.close)
        yield cluster
        stack.pop_all()
    if (other := _idle.pop(key, None)) is not None:
        other.close()
    elif len(_idle) >= MAX_IDLE:
        _idle.pop(next(iter(_idle))).close()
    _idle[key] = cluster
