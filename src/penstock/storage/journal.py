"""The commit journal: one write and one sync make small appends of many logs durable.

Everything runs on the event loop's thread but for `open`, `start`, `close` and `JournalTicket.run`, which block.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from uuid import UUID

from penstock.disk.interface import Disk
from penstock.errors import PenstockError, Problem
from penstock.storage.core.journal_entry import ENTRY_BYTES, Lap, encode_entry, entry_size
from penstock.storage.core.replay import JournaledPiece
from penstock.storage.journal_file import FILE_BYTES, JournalFile
from penstock.storage.journal_share import JournalShare
from penstock.storage.stage import Taken, settle_stage, staged_bytes, take_stage
from penstock.storage.state import LogState
from penstock.units import SECOND_MS

logger = logging.getLogger(__name__)

DIRECTORY_NAME = "journal"
FILE_NAMES = ("a", "b")
# After a full disk the files may not have grown to their size yet: own syncs go on meanwhile, so there is no hurry.
RETRY_MS = 5 * SECOND_MS

_MISSING = (
    "the last stop was not clean and there is no journal: if the power failed, acknowledged records that only it had "
    "may be missing at the ends of logs"
)
_BRING_BACK = (
    "if it was moved away, stop this node, bring it back and start again; if it is lost, check the disk, and what "
    "producers sent last"
)
_UNREADABLE = (
    "the last stop was not clean and this file does not begin as it was written. If the power failed when it was "
    "begun anew, nothing is lost; if the disk has damaged it, and the power failed, acknowledged records that only it "
    "had may be missing at the ends of logs"
)
_CHECK = "check the disk, and what producers sent last"


class JournalTicket:
    """One entry on its way to the disk."""

    def __init__(self, file: JournalFile, lap: Lap, sequence: int, taken: Sequence[Taken]) -> None:
        self._file = file
        self._lap = lap
        self._sequence = sequence
        self._position = file.position
        self.taken = taken
        self.size = 0

    def run(self) -> None:
        """Blocking, once, on any thread. Raises OSError: then nothing of it is known to be on disk."""
        entry = encode_entry(self._lap.name, self._sequence, [each.piece for each in self.taken])
        self.size = len(entry)
        self._file.write(entry, self._lap, self._position)


class Journal:
    """Opened, it can be read; from `start` on it is written."""

    def __init__(self, disk: Disk, data_directory: str, file_bytes: int) -> None:
        self._disk = disk
        self._directory = f"{data_directory}/{DIRECTORY_NAME}"
        self._files = [JournalFile(disk, self._directory, name, file_bytes) for name in FILE_NAMES]
        self._current = self._files[0]
        self._found: dict[tuple[UUID, int], list[JournaledPiece]] = {}
        self._next_sequence = 1
        self._started = False
        self._ticket: JournalTicket | None = None
        # How often it went on in another file, and whether the next time is overdue.
        self.laps = 0
        self.is_blocked = False
        self._retry_ms = 0
        # Why it is not used any more.
        self.failure: str | None = None
        self.commits = 0
        self.committed_bytes = 0

    @classmethod
    def open(cls, disk: Disk, data_directory: str, *, file_bytes: int = FILE_BYTES, is_needed: bool = False) -> Journal:
        """Reads what is there. Raises PenstockError: it may be all that is left of acknowledged records.

        `is_needed`: there are logs, and they were not closed cleanly, so that it is worth a line if something of it is
        missing.
        """
        journal = cls(disk, data_directory, file_bytes)
        try:
            for file in journal._files:
                for entry in file.entries():
                    journal.raise_sequence(entry.sequence + 1)
                    file.will_hold((piece.topic_id, piece.partition) for piece in entry.pieces)
                    for piece in entry.pieces:
                        found = journal._found.setdefault((piece.topic_id, piece.partition), [])
                        found.append(JournaledPiece(entry.sequence, piece))
        except OSError as error:
            raise PenstockError(
                Problem.STORAGE_FAILED,
                f"the journal in {journal._directory} cannot be read: {error}. It may hold acknowledged records that "
                "are nowhere else. Check the disk; to start without them, move that directory away",
            ) from error
        if is_needed:
            journal._say_what_is_missing()
        return journal

    def share_for(self, topic_id: UUID, partition: int) -> JournalShare:
        """For the log of that partition. On any thread."""
        found = self._found.get((topic_id, partition), ())
        has_some = any(file.may_hold((topic_id, partition)) for file in self._files)
        return JournalShare(topic_id, partition, found, has_some, lambda: self._next_sequence, self.raise_sequence)

    def raise_sequence(self, sequence: int) -> None:
        """Entries from now on have at least this one. A log's checkpoint knows below which its pieces are void."""
        # Logs of new topics are opened on another thread; they know of no higher one, and must not write here.
        if sequence > self._next_sequence:
            self._next_sequence = sequence

    def start(self) -> None:
        """All logs are open, and what the journal had of them is in their files, synced: from now on it is written."""
        self._found = {}
        try:
            self._disk.make_directory(self._directory)
            for file in self._files:
                file.wipe()
        except OSError as error:
            self._fail(error)
        self._started = True

    def begin(self, logs: Sequence[LogState], now_ms: int) -> JournalTicket | None:
        """The next entry, with as many of these logs as fit; each has `staged_bytes`.

        None while one is on its way, and when it cannot be used now: then all must sync their files.
        """
        if not self.is_usable(now_ms) or self._ticket is not None:
            return None
        count, data_bytes = 0, 0
        for log in logs:
            staged = staged_bytes(log)
            if entry_size(data_bytes + staged, count + 1) > ENTRY_BYTES:
                break
            count, data_bytes = count + 1, data_bytes + staged
        file = self._file_for(entry_size(data_bytes, count))
        if file is None or file.lap is None or not count:
            return None
        sequence = self._next_sequence
        self._next_sequence += 1
        taken = [take_stage(log) for log in logs[:count]]
        file.will_hold((each.piece.topic_id, each.piece.partition) for each in taken)
        self._ticket = JournalTicket(file, file.lap, sequence, taken)
        return self._ticket

    def is_usable(self, now_ms: int) -> bool:
        return self._started and self.failure is None and now_ms >= self._retry_ms

    def finish(self, ticket: JournalTicket) -> None:
        """The ticket has run without an error."""
        self._ticket = None
        file = self._current
        file.position += ticket.size
        for taken in ticket.taken:
            file.holds[taken.log] = taken.end_offset
            settle_stage(taken)
        self.commits += 1
        self.committed_bytes += ticket.size

    def fail(self, ticket: JournalTicket, error: BaseException, now_ms: int) -> None:
        """The ticket has run with this error: all that were in it must sync their files.

        What they have staged since begins behind the gap, and so waits for that.
        """
        assert ticket is self._ticket
        self._ticket = None
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._retry_ms = now_ms + RETRY_MS
            do = "free some space; until then every log syncs its own files"
            logger.warning("journal.full", extra={"directory": self._directory, "why": str(error), "do": do})
        else:
            self._fail(error)

    def lagging(self) -> list[LogState]:
        """The logs that must sync their files before the file that is not written to now can have its next lap."""
        return [log for file in self._files if file is not self._current for log in file.lagging()]

    def unsynced(self) -> list[LogState]:
        """All logs with something that only the journal has."""
        return [log for file in self._files for log in file.lagging()]

    def forget(self, log: LogState) -> None:
        """It is deleted: what the journal has of it will never be asked for."""
        for file in self._files:
            file.holds.pop(log, None)

    def close(self) -> None:
        """After all logs were closed: the next start need not read it, unless one of them failed."""
        if self._started and self.failure is None and not self.unsynced():
            try:
                for file in self._files:
                    file.wipe()
            except OSError as error:
                self._fail(error)
        self._started = False

    def _say_what_is_missing(self) -> None:
        if not self._disk.exists(self._directory):
            logger.warning("journal.missing", extra={"directory": self._directory, "why": _MISSING, "do": _BRING_BACK})
        for file in self._files:
            if file.is_unreadable:
                logger.warning("journal.unreadable", extra={"file": file.path, "why": _UNREADABLE, "do": _CHECK})

    def _file_for(self, size: int) -> JournalFile | None:
        """Where an entry of this size goes; None while the other file holds what its logs have not synced yet."""
        if self._current.has_room_for(size):
            return self._current
        if self._current.lap is not None:
            other = self._files[1 - self._files.index(self._current)]
            self.is_blocked = bool(other.lagging())
            if self.is_blocked:
                return None
            self._current = other
            self.laps += 1
        self._current.begin_lap(self._next_sequence)
        return self._current

    def _fail(self, error: BaseException) -> None:
        self.failure = str(error)
        do = "check the disk, then restart this node; until then every log syncs its own files"
        logger.error("journal.failed", extra={"directory": self._directory, "why": str(error), "do": do})
