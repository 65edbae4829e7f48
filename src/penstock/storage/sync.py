"""Group commit: what has to be synced is gathered on the event loop, synced on a pool thread, recorded on the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.disk.interface import Disk, File
from penstock.storage.doubt import Doubtful, SyncedMark
from penstock.storage.gaps import say_gaps
from penstock.storage.segment import Segment


class SyncTicket:
    """Everything that was appended before it was given out; `then` is done once that is on disk."""

    def __init__(
        self,
        first: Sequence[Callable[[], None]],
        files: Sequence[File],
        sync_names: Callable[[], None] | None,
        mark: Callable[[], None] | None,
        end_offset: int,
        then: Callable[[], None] | None = None,
    ) -> None:
        self._first = first
        self._files = files
        self._sync_names = sync_names
        self._mark = mark
        self._then = then
        self.end_offset = end_offset
        # The log was truncated since: what is synced is not what is there.
        self.is_void = False
        # A checkpoint that could not be written costs time at the next start, but no data.
        self.checkpoint_error: OSError | None = None

    @property
    def has_checkpoint(self) -> bool:
        return self._then is not None

    def run(self) -> None:
        """Blocking, once, on any thread. Raises OSError: then nothing of it is known to be on disk."""
        for step in self._first if not self.is_void else ():
            step()
        for file in self._files:
            file.sync()
        if self._sync_names is not None:
            self._sync_names()
        if self._mark is not None and not self.is_void:
            self._mark()
        if self._then is not None:
            try:
                self._then()
            except OSError as error:
                self.checkpoint_error = error


class GroupCommit:
    """Which files and names of one log are not on disk yet. Runs on the event loop's thread; one ticket at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        # Closed to appends before their last bytes were synced.
        self._rolled: list[Segment] = []
        # To be written again before they are synced.
        self._doubtful: list[Doubtful] = []
        self._names = 0
        self._synced_names = 0
        self._ticket: SyncTicket | None = None
        self._rolled_with_ticket: list[Segment] = []
        self._names_with_ticket = 0
        # Said by this process: of a word that it found nobody knows whether a power cut would take it.
        self.says_gaps = False

    def waits_for(self, segment: Segment) -> bool:
        """Its last bytes are not synced yet. Its descriptor has to stay: only to those that were open when the

        operating system failed to write a file is it bound to tell of that.
        """
        return segment in self._rolled

    @property
    def rolled_count(self) -> int:
        return len(self._rolled)

    @property
    def names_are_synced(self) -> bool:
        return self._names == self._synced_names

    @property
    def in_flight(self) -> bool:
        return self._ticket is not None

    def made_name(self) -> None:
        """A file was created: no acknowledgement from it before the directory is synced."""
        self._names += 1

    def expect_gaps(self) -> None:
        """Something behind a gap is about to be written: it counts when the word of that is on disk. Raises OSError."""
        say_gaps(self._disk, self._directory)
        self.made_name()
        self.says_gaps = True

    def took_up(self, segments: Sequence[Segment]) -> None:
        """Recovery found bytes and perhaps names that no sync is known to have covered."""
        self._rolled += segments
        self._names += 1

    def distrust(self, doubtful: Sequence[Doubtful]) -> None:
        """Of segments that were taken up: their next sync proves nothing by itself."""
        self._doubtful += doubtful

    def rolled(self, segment: Segment) -> None:
        self._rolled.append(segment)

    def begin(
        self,
        active: Segment | None,
        end_offset: int,
        latest_epoch: int | None,
        then: Callable[[], None] | None,
        room: Callable[[], None] | None = None,
    ) -> SyncTicket:
        files = [segment.file() for segment in self._rolled]
        if active is not None:
            files.append(active.file())
        sync_names = None if self.names_are_synced else partial(self._disk.sync_directory, self._directory)
        last = active or (self._rolled[-1] if self._rolled else None)
        mark = None
        if last is not None:
            mark = partial(SyncedMark.at_end_of(last, end_offset, latest_epoch).write, self._disk, self._directory)
        self._rolled_with_ticket = list(self._rolled)
        self._names_with_ticket = self._names
        first = [each.writing_again() for each in self._doubtful]
        if room is not None:
            first.append(room)
        self._ticket = SyncTicket(first, files, sync_names, mark, end_offset, then)
        return self._ticket

    def finish(self, ticket: SyncTicket) -> list[Segment] | None:
        """The closed segments that are on disk now, of those that are still there.

        None if the log was truncated since: what the ticket synced is not what is there now.
        """
        if self._ticket is not ticket:
            return None
        self._ticket = None
        with_ticket = set(self._rolled_with_ticket)
        self._rolled_with_ticket = []
        synced = [segment for segment in self._rolled if segment in with_ticket]
        self._rolled = [segment for segment in self._rolled if segment not in with_ticket]
        self._doubtful = []
        self._synced_names = self._names_with_ticket
        return synced

    def drop(self, segments: Sequence[Segment]) -> None:
        """They were deleted: nobody needs them on disk."""
        self._rolled = [segment for segment in self._rolled if segment not in segments]
        self._doubtful = [each for each in self._doubtful if each.segment not in segments]

    def sync_now(self, active: Segment | None) -> None:
        """Blocking. Raises OSError."""
        for each in self._doubtful:
            each.writing_again()()
        for segment in (*self._rolled, *([active] if active else ())):
            segment.file().sync()
        self._doubtful = []

    def everything_synced(self) -> None:
        """The log was truncated and synced in place; a ticket that is out is void."""
        if self._ticket is not None:
            self._ticket.is_void = True
        self._ticket = None
        self._rolled = []
        self._doubtful = []
        self._synced_names = self._names
