"""The store that the settings name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.data_directory import EMBEDDED_STORE
from penstock.coordination.embedded import EmbeddedStore
from penstock.disk.interface import Disk

if TYPE_CHECKING:
    from penstock.coordination.zookeeper import ZooKeeperStore


async def open_store(settings: CoordinationSettings, disk: Disk, data_dir: str) -> EmbeddedStore | ZooKeeperStore:
    """Raises PenstockError that says why there is none. Whoever opens it closes it."""
    if settings.coordination.is_embedded:
        return EmbeddedStore.open(disk, os.path.join(data_dir, EMBEDDED_STORE))
    # Here, because a node of its own would keep a megabyte of code that it never runs.
    from penstock.coordination.zookeeper import ZooKeeperStore

    return await ZooKeeperStore.open(settings)
