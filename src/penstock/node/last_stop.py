"""Whether the run before ended as it should have: a mark that only a clean stop leaves behind.

After any other end the logs may have lost what nobody had synced (flush.policy=os). Partitions then begin a new leader
epoch, so that a consumer that had read such records finds out instead of skipping what was written in their place.
"""

from __future__ import annotations

import logging
import os

from penstock.disk.interface import Disk

logger = logging.getLogger(__name__)

_NAME = "stopped-cleanly"


class LastStop:
    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._path = os.path.join(data_dir, _NAME)
        self.was_clean = disk.exists(self._path)

    def forget(self) -> None:
        """From here on only a clean stop counts. Blocking."""
        if self.was_clean:
            self._disk.remove(self._path)
            self._disk.sync_directory(self._data_dir)

    def mark_clean(self) -> None:
        """Blocking. Without the mark the next start takes this for an unclean end, which costs an epoch, no data."""
        try:
            self._disk.open(self._path, create=True).close()
            self._disk.sync_directory(self._data_dir)
        except OSError as error:
            logger.warning("node.stop.unmarked", extra={"why": str(error)})
