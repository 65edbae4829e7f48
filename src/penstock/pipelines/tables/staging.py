"""Where files wait until their batch is committed: `_staged/QUERY.BATCH.ATTEMPT/` in the table's directory.

A task that outlives its attempt (Spark had given it up, or its driver died) goes on writing there and nowhere else.
Only files that the driver was told of leave the stage, each by a rename, before the table refers to them. So a stage
can be thrown away at any time: an attempt that is still at work then fails to move its files, and commits nothing.
"""

from __future__ import annotations

import uuid

from penstock.disk.interface import Disk
from penstock.pipelines.core.names import STAGED, Attempt


class Staging:
    def __init__(self, root: str, disk: Disk) -> None:
        self._directory = f"{root}/{STAGED}"
        self._disk = disk

    def path(self, attempt: Attempt) -> str:
        return f"{self._directory}/{attempt.name}"

    def make(self, attempt: Attempt) -> str:
        path = self.path(attempt)
        # Nothing of it has to survive a power cut.
        self._disk.make_directory(path, for_good=False)
        return path

    def discard(self, attempt: Attempt) -> None:
        if self._disk.exists(self.path(attempt)):
            self._throw_away(attempt.name)

    def discard_all(self, query: str) -> None:
        if not self._disk.exists(self._directory):
            return
        for name in self._disk.list_directory(self._directory):
            found = Attempt.parse(name)
            if found is None or found.query == query:
                self._throw_away(name)

    def _throw_away(self, name: str) -> None:
        """First out of sight as a whole: deleting takes a while, and an attempt must not commit half of what it

        wrote.
        """
        hidden = f"{self._directory}/{uuid.uuid4().hex}"
        try:
            self._disk.rename(f"{self._directory}/{name}", hidden)
            self._disk.remove_directory(hidden)
        except FileNotFoundError:
            # Somebody else throws it away.
            return
