"""Whether the run before ended as it should have: a mark that only a clean stop leaves behind.

After any other end the logs may have lost what nobody had synced (flush.policy=os). Partitions then begin a new leader
epoch, so that a consumer that had read such records finds out instead of skipping what was written in their place.
"""

from __future__ import annotations

import logging
import os

from penstock.disk.interface import Disk
from penstock.storage.directories import PartitionDirectories

logger = logging.getLogger(__name__)

_NAME = "stopped-cleanly"
# Beside it, from the first run with flush.policy=os on until a clean stop: other runs after it do not take it back.
_UNSYNCED_NAME = "acknowledged-unsynced"


class LastStop:
    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._path = os.path.join(data_dir, _NAME)
        self._unsynced_path = os.path.join(data_dir, _UNSYNCED_NAME)
        self.was_clean = disk.exists(self._path)
        self.was_unsynced = not self.was_clean and disk.exists(self._unsynced_path)

    def forget(self, flush_policy: str) -> None:
        """From here on only a clean stop counts. `flush_policy`: of this run, for topics that do not say. Blocking."""
        if flush_policy == "os":
            self._disk.open(self._unsynced_path, create=True).close()
            self._disk.sync_directory(self._data_dir)
        if self.was_clean:
            self._disk.remove(self._path)
            self._disk.sync_directory(self._data_dir)

    def mark_clean(self, directories: PartitionDirectories) -> None:
        """Blocking. Without the mark the next start takes this for an unclean end, which costs an epoch, no data."""
        try:
            directories.forget_unsynced()
            self._disk.open(self._path, create=True).close()
            self._disk.sync_directory(self._data_dir)
            if self._disk.exists(self._unsynced_path):
                self._disk.remove(self._unsynced_path)
        except OSError as error:
            logger.warning("node.stop.unmarked", extra={"why": str(error)})
