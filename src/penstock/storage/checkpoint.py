"""The files in which a log writes down its checkpoint and where it starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.disk.interface import Disk, replace_atomically
from penstock.storage.core.checkpoint import Checkpoint, StartOffset
from penstock.storage.core.log_files import CHECKPOINT_NAME, START_OFFSET_NAME
from penstock.storage.core.sealed import seal
from penstock.storage.index import IndexBlock
from penstock.storage.sealed import read_sealed


class CheckpointFiles:
    """Of one log. Threads write them in turn, and none overwrites what was decided after its own content.

    A turn is taken on the event loop's thread when the content is gathered.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._lock = threading.Lock()
        self._turn = 0
        self._written_turn = 0
        self._start_offset = 0
        # What is read after a kill may not be on disk for good, so this knows only what was written since.
        self._durable_start_offset = 0

    def take_turn(self) -> int:
        self._turn += 1
        return self._turn

    def read(self) -> tuple[Checkpoint | None, int]:
        checkpoint = read_sealed(self._disk, self._path(CHECKPOINT_NAME), Checkpoint)
        start = read_sealed(self._disk, self._path(START_OFFSET_NAME), StartOffset)
        self._start_offset = max(start.start_offset if start else 0, checkpoint.start_offset if checkpoint else 0)
        return checkpoint, self._start_offset

    def write(self, turn: int, blocks: Sequence[IndexBlock], checkpoint: Checkpoint, for_good: bool) -> None:
        """Blocking. The caller has synced what the checkpoint speaks of.

        Not `for_good`: a power cut may bring the one before back, and a start reads more of the log. Who takes
        something away that the one before speaks of must wait for it for good.
        """
        with self._lock:
            if turn < self._written_turn:
                return
            for block in blocks:
                block.write(self._disk)
            replace_atomically(self._disk, self._path(CHECKPOINT_NAME), seal(checkpoint), for_good=for_good)
            self._written_turn = turn
            if for_good:
                self._durable_start_offset = max(self._durable_start_offset, checkpoint.start_offset)

    def write_start_offset(self, start_offset: int, is_still_right: Callable[[], bool] | None = None) -> bool:
        """Blocking. Durable when it returns; never goes back. False, and nothing is done, if it is not right any more

        when its turn has come.
        """
        with self._lock:
            if is_still_right is not None and not is_still_right():
                return False
            if start_offset > self._durable_start_offset:
                highest = max(start_offset, self._start_offset)
                replace_atomically(self._disk, self._path(START_OFFSET_NAME), seal(StartOffset(highest)))
                self._start_offset = self._durable_start_offset = highest
            return True

    def take_back_start(self, beyond: int, start_offset: int) -> None:
        """A start that was written down beyond the new end of a log, and never came to count: it would take what comes

        in its place. Blocking. Durable when it returns. The log has its new end already, so that no other follows.
        """
        with self._lock:
            if self._start_offset > beyond:
                replace_atomically(self._disk, self._path(START_OFFSET_NAME), seal(StartOffset(start_offset)))
                self._start_offset = self._durable_start_offset = start_offset

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
