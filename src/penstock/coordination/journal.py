"""The embedded store on disk: a snapshot and the journal of what was written since.

`snapshot` is replaced as a whole and names the journal that goes with it; `journal-<generation>` only grows. Every
start begins a new generation, so nothing is ever appended behind bytes whose sync may have failed or been torn.
Everything here blocks.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import msgspec

from penstock.coordination.core.frames import FRAME_OVERHEAD, FrameError, frame, read_frames
from penstock.coordination.core.tree import Write
from penstock.disk.interface import Disk, File, read_whole, write_fully
from penstock.errors import PenstockError, Problem

_SNAPSHOT = "snapshot"
_JOURNAL = "journal-"
_TEMPORARY = ".tmp"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class _Snapshot(msgspec.Struct, array_like=True):
    generation: int
    nodes: list[Write]
    # The highest creation id that was ever given: its node may be gone.
    last_created: int = 0


class Recovered(NamedTuple):
    """What was on disk: `torn_bytes` of a write that was never answered were dropped."""

    journal: Journal
    writes: list[Write]
    last_created: int
    torn_bytes: int


class Journal:
    """Not for two threads at once. After a failed sync it refuses everything: what is on disk is unknown then."""

    def __init__(self, disk: Disk, directory: str, generation: int, smallest_full_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._generation = generation
        self._file: File | None = None
        self._end = 0
        self._sequence = 0
        self._smallest_full_bytes = smallest_full_bytes
        self._full_at = smallest_full_bytes
        self._failure: str | None = None

    @classmethod
    def open(cls, disk: Disk, directory: str, smallest_full_bytes: int) -> Recovered:
        """Raises PenstockError(STORAGE_FAILED) for anything that a crash cannot explain, and changes nothing then."""
        disk.make_directory(directory)
        names = disk.list_directory(directory)
        snapshot, torn_bytes = _Snapshot(0, []), 0
        writes: list[Write] = []
        if _SNAPSHOT in names:
            snapshot = _read_snapshot(disk, f"{directory}/{_SNAPSHOT}")
            name = _journal_name(snapshot.generation)
            if name not in names:
                raise _refusal(directory, f"{name} is missing, which the snapshot needs")
            changes, torn_bytes = _read_journal(disk, f"{directory}/{name}")
            writes = snapshot.nodes + changes
        elif any(not _is_unused(disk, directory, name) for name in names if name.startswith(_JOURNAL)):
            raise _refusal(directory, "there is a journal but no snapshot, which holds what came before it")
        journal = cls(disk, directory, snapshot.generation, smallest_full_bytes)
        return Recovered(journal, writes, snapshot.last_created, torn_bytes)

    @property
    def generation(self) -> int:
        """Grows with every start, for good."""
        return self._generation

    @property
    def is_full(self) -> bool:
        """Time to `restart` it with the whole state: not before as much was written as a snapshot would write."""
        return self._end >= self._full_at and self._failure is None

    def check_usable(self) -> None:
        """Raises PenstockError if nothing can be written any more."""
        self._usable()

    def append(self, writes: Sequence[Write]) -> None:
        """On disk when it returns. Without room it raises and can be tried again; a failed sync is final."""
        file = self._usable()
        content = frame(self._sequence + 1, msgspec.msgpack.encode(writes))
        try:
            write_fully(file, [content], self._end)
        except OSError as error:
            self._cut_back(file)
            raise PenstockError(Problem.STORAGE_FAILED, f"coordination store: cannot write: {error}") from error
        try:
            file.sync()
        except OSError as error:
            self._fail(f"a sync of its journal failed: {error}", error)
        self._end += len(content)
        self._sequence += 1

    def restart(self, writes: Sequence[Write], last_created: int) -> None:
        """Begin a new generation that holds `writes`, the whole state. Without room the old one goes on."""
        generation = self._generation + 1
        content = frame(generation, msgspec.msgpack.encode(_Snapshot(generation, list(writes), last_created)))
        self._full_at = self._end + max(self._smallest_full_bytes, len(content))
        if self._failure is not None:
            self._refuse()
        try:
            file = self._prepare(generation, content)
        except OSError as error:
            if error.errno in _NO_ROOM and self._file is not None:
                return
            self._fail(f"a snapshot could not be written: {error}", error)
        snapshot = f"{self._directory}/{_SNAPSHOT}"
        try:
            self._disk.rename(snapshot + _TEMPORARY, snapshot)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            # From here on either generation may be the one that the next start finds, so neither can be written to.
            file.close()
            self._fail(f"a snapshot could not be put in place: {error}", error)
        self.close()
        self._file, self._generation, self._end = file, generation, 0
        self._full_at = max(self._smallest_full_bytes, len(content))
        self._remove_old()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _usable(self) -> File:
        if self._failure is not None or self._file is None:
            self._refuse()
        return self._file

    def _prepare(self, generation: int, snapshot: bytes) -> File:
        """The new journal comes first, durably: a snapshot without the journal it names is refused at start."""
        file = self._disk.open(f"{self._directory}/{_journal_name(generation)}", create=True)
        try:
            file.truncate(0)
            file.sync()
            self._disk.sync_directory(self._directory)
            temporary = self._disk.open(f"{self._directory}/{_SNAPSHOT}{_TEMPORARY}", create=True)
            try:
                temporary.truncate(0)
                write_fully(temporary, [snapshot], 0)
                temporary.sync()
            finally:
                temporary.close()
        except OSError:
            file.close()
            raise
        return file

    def _cut_back(self, file: File) -> None:
        try:
            file.truncate(self._end)
        except OSError as error:
            self._fail(f"a failed write could not be undone: {error}", error)

    def _remove_old(self) -> None:
        current = _journal_name(self._generation)
        # What cannot be removed now is not read by anybody, and the next generation tries again.
        with contextlib.suppress(OSError):
            for name in self._disk.list_directory(self._directory):
                if name.startswith(_JOURNAL) and name != current:
                    self._disk.remove(f"{self._directory}/{name}")

    @property
    def failure(self) -> str | None:
        return None if self._failure is None else self._failure_text()

    def _fail(self, reason: str, error: OSError) -> NoReturn:
        self._failure = reason
        raise PenstockError(Problem.STORAGE_FAILED, self._failure_text()) from error

    def _refuse(self) -> NoReturn:
        raise PenstockError(Problem.STORAGE_FAILED, self._failure_text())

    def _failure_text(self) -> str:
        if self._failure is None:
            return f"the coordination store in {self._directory} is closed"
        return (
            f"the coordination store in {self._directory} takes no more changes, because {self._failure}. "
            "Check the disk, then restart"
        )


def _journal_name(generation: int) -> str:
    return f"{_JOURNAL}{generation:020d}"


def _is_unused(disk: Disk, directory: str, name: str) -> bool:
    """It may be there without a snapshot: a crash in the very first start leaves it. Later ones had a snapshot, and

    are empty as long as nothing changes.
    """
    return name == _journal_name(1) and not read_whole(disk, f"{directory}/{name}")


def _read_snapshot(disk: Disk, path: str) -> _Snapshot:
    data = read_whole(disk, path)
    try:
        frames, end = read_frames(data)
        if len(frames) != 1 or end != len(data):
            raise FrameError(f"it should be one whole frame of {len(data) - FRAME_OVERHEAD} bytes")
        return msgspec.msgpack.decode(frames[0].payload, type=_Snapshot)
    except (FrameError, msgspec.DecodeError) as error:
        raise _refusal(path, str(error)) from error


def _read_journal(disk: Disk, path: str) -> tuple[list[Write], int]:
    data = read_whole(disk, path)
    try:
        frames, end = read_frames(data)
        writes = [write for each in frames for write in msgspec.msgpack.decode(each.payload, type=list[Write])]
    except (FrameError, msgspec.DecodeError) as error:
        raise _refusal(path, str(error)) from error
    return writes, len(data) - end


def _refusal(path: str, reason: str) -> PenstockError:
    return PenstockError(
        Problem.STORAGE_FAILED,
        f"the coordination store cannot be read: {path}: {reason}. No crash does this: "
        "check the disk, then restore the directory from a copy",
    )
