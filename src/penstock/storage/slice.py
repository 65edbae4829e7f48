"""Where the bytes of a read are, and how to get them without blocking the event loop if that is possible."""

from __future__ import annotations

import logging

from penstock.disk.interface import Buffer, File
from penstock.errors import PenstockError, Problem
from penstock.storage.core.damage import Damage
from penstock.storage.core.known_bytes import PAGE_BYTES
from penstock.storage.core.selection import Query, Selection, large_batches, select
from penstock.storage.segment import Segment
from penstock.storage.segment_indexes import SegmentIndexes
from penstock.units import MIB
from penstock.wire.batch import HEADER_BYTES
from penstock.wire.stored_batches import StoredBatches

# How finely to look where something is missing.
_CHUNK_BYTES = MIB
# How much is looked at on a pool thread without another thread's turn in between: smallest batches take milliseconds.
_LOAD_BYTES = 2 * MIB

logger = logging.getLogger(__name__)


class Slice:
    """`length` is how many bytes there are at most. A slice stays inside one segment and holds its file open.

    Ask `cached` on the event loop's thread; if that is None, `load` on a pool thread. Both answer with whole batches.
    """

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length

    def cached(self) -> Buffer | None:
        """The bytes, if none of them must be waited for."""
        return b""

    def in_file(self) -> StoredBatches | None:
        """Where the bytes are, if they may be sent from there without being looked at, and need not be waited for."""
        return None

    def load(self) -> Buffer:
        """The bytes, all CRCs checked. Blocking.

        Raises PenstockError: CORRUPT_RECORDS, OFFSET_NOT_AVAILABLE, STORAGE_FAILED.
        """
        return b""

    def has_loaded(self) -> None:
        """Back on the event loop's thread, after `load`."""


class SearchedSlice(Slice):
    """A part of a segment known only roughly: the batches must be looked at, so all are checked."""

    __slots__ = ("_file", "_interval_bytes", "_is_missing", "_loaded", "_query", "_segment", "_truncations")

    def __init__(self, segment: Segment, query: Query, interval_bytes: int) -> None:
        super().__init__(min(query.max_bytes, segment.size) if not query.at_least_one else segment.size)
        self._segment = segment
        self._file: File = segment.file()
        self._query = query
        self._interval_bytes = interval_bytes
        self._truncations = segment.truncations
        # Some of it is not in the page cache.
        self._is_missing = False
        # Position and length of what was found and checked by a pool thread.
        self._loaded: tuple[int, int] | None = None

    def cached(self) -> Buffer | None:
        indexes = self._segment.indexes
        if indexes is None or self._segment.truncations != self._truncations:
            # Nobody has looked whether it is in the page cache: `load` may read it from the disk.
            self._segment.known.doubt()
            return None
        if self._is_missing:
            return None
        expected, position = self._segment.place_before(self._query.offset, indexes)
        available = self._segment.sound_end(position) - position
        data = self._read_cached(position, min(available, self._span(indexes, position)))
        if data is None:
            return None
        is_behind = _is_behind_damage(self._segment, position)
        selection = select(data, available, expected, self._query, is_behind=is_behind)
        is_empty, stopped_at = selection.start == selection.end, position + selection.end
        if selection.needed or (is_empty and (selection.fault or self._known_damage_at(stopped_at))):
            # Rare, and not worth a second way to do it without blocking.
            self._forget_missing(position + selection.end + selection.needed)
            return None
        self._segment.known.checked(position + selection.start, selection.end - selection.start)
        return _part(data, selection)

    def _read_cached(self, position: int, length: int) -> Buffer | None:
        try:
            # Before the kernel begins to read ahead, which it does also for a read that does not wait.
            self._forget_missing(position + length)
            data = self._file.read_cached(position, length)
        except OSError:
            # `load` meets it again, and tells.
            data = None
        if data is None:
            self._forget(position, position + length)
        return data

    def _forget_missing(self, position: int) -> None:
        """The kernel reads ahead: what is not in the page cache now, from there on, may come from the disk unasked."""
        known, size = self._segment.known, self._segment.size
        for start, end in known.within(position, min(size, position + self._file.read_ahead_bytes())):
            if self._file.is_cached(start, end - start):
                continue
            for chunk in range(start, end, _CHUNK_BYTES):
                chunk_end = min(end, chunk + _CHUNK_BYTES)
                if not self._file.is_cached(chunk, chunk_end - chunk):
                    self._forget(chunk, chunk_end)

    def _forget(self, start: int, end: int) -> None:
        """Some of it is missing, and a page that is comes from the disk as a whole."""
        before = 0 if self._file.is_cached(start, 1) else start % PAGE_BYTES
        behind = 0 if self._file.is_cached(end - 1, 1) else -end % PAGE_BYTES
        self._segment.known.left_the_cache(start - before, end + behind)

    def in_file(self) -> StoredBatches | None:
        segment, indexes, query = self._segment, self._segment.indexes, self._query
        if indexes is None or segment.damage or query.gaps:
            return None
        expected, position = segment.place_before(query.offset, indexes)
        available = min(segment.size - position, query.max_bytes + self._interval_bytes)
        if not self.is_as_known(position, available):
            return None
        try:
            found = large_batches(self._file.read_cached, position, available, expected, query)
        except OSError:
            # `load` meets it again, and tells.
            self.doubt()
            return None
        return None if found is None else StoredBatches(self._file, *found, self)

    def is_as_known(self, position: int, length: int) -> bool:
        """Whether these bytes are right, although nobody looks at them, and need not be waited for."""
        segment = self._segment
        if segment.truncations != self._truncations or not segment.known.holds(position, length):
            return False
        if not self._file.is_cached(position, length):
            self._is_missing = True
            self._forget(position, position + length)
            self._forget_missing(position + length)
            return False
        return True

    def doubt(self) -> None:
        """They could not be sent."""
        self._segment.known.doubt()

    def _span(self, indexes: SegmentIndexes, position: int) -> int:
        """How much to read from there on. Where batches begin is known of all that are not small: so what is read need

        not be cut, of which half could be in vain.
        """
        max_bytes = self._query.max_bytes
        last, following = indexes.around_position(position + max_bytes)
        # Always with the header behind it, which tells a gap from a base offset that is damaged.
        if last is not None and last > position:
            return last - position + HEADER_BYTES
        if following is None:
            return max_bytes + self._interval_bytes + HEADER_BYTES
        # What begins here does not fit as a whole; but before a large batch there may be small ones.
        enough = max_bytes + MIB if self._query.at_least_one else 2 * self._interval_bytes
        return min(following - position, enough) + HEADER_BYTES

    def load(self) -> Buffer:
        try:
            return self._load()
        except OSError as error:
            self.doubt()
            self._check_still_there()
            raise unreadable(self._segment.path, error) from error

    def _load(self) -> Buffer:
        indexes = self._segment.ready_indexes(self._interval_bytes, self._file)
        data, position, selection = self._search(indexes)
        if selection.fault and selection.start == selection.end:
            if self._segment.truncations == self._truncations:
                # An index that leads astray looks like damage.
                indexes = self._segment.rebuild_indexes(self._interval_bytes, self._file)
                data, position, selection = self._search(indexes)
            if selection.fault and selection.start == selection.end:
                raise self._damaged(position + selection.end, selection.expected_offset)
        self._check_still_there()
        if selection.start == selection.end and (damage := self._known_damage_at(position + selection.end)) is not None:
            raise damage.error()
        self._loaded = (position + selection.start, selection.end - selection.start)
        return _part(data, selection)

    def has_loaded(self) -> None:
        if self._loaded is not None and self._segment.truncations == self._truncations:
            self._segment.known.checked(*self._loaded)

    def _search(self, indexes: SegmentIndexes) -> tuple[bytes, int, Selection]:
        query = self._query
        if query.max_bytes > _LOAD_BYTES:
            found = self._search_for(query._replace(max_bytes=_LOAD_BYTES), indexes)
            if found[2].start < found[2].end or found[2].fault:
                return found
        # Also a batch that is larger.
        return self._search_for(query, indexes)

    def _search_for(self, query: Query, indexes: SegmentIndexes) -> tuple[bytes, int, Selection]:
        expected, position = self._segment.place_before(query.offset, indexes)
        end = self._segment.sound_end(position)
        span = query.max_bytes + self._interval_bytes
        is_behind = _is_behind_damage(self._segment, position)
        while True:
            data = self._file.read(position, min(end - position, span))
            selection = select(data, end - position, expected, query, is_behind=is_behind)
            if not selection.needed or selection.fault:
                return data, position, selection
            if len(data) < min(end - position, span):
                return data, position, selection._replace(fault=True)
            position += selection.end
            expected, is_behind = selection.expected_offset, is_behind or selection.end > 0
            # With the header behind it, which tells a gap from a base offset that is damaged.
            span = max(selection.needed, query.max_bytes) + HEADER_BYTES

    def _known_damage_at(self, position: int) -> Damage | None:
        """Known damage that begins there, before all that may be read: who comes from a gap before it is told, too."""
        for damage in self._segment.damage:
            if damage.position == position and damage.first_offset < self._query.upto:
                return damage
        return None

    def _damaged(self, position: int, expected_offset: int) -> PenstockError:
        self._check_still_there()
        damage = self._segment.diagnose(position, expected_offset)
        self._check_still_there()
        self._segment.add_damage(damage)
        error = damage.error()
        logger.error("log.damage.found", extra={"segment": self._segment.path, "why": str(error)})
        return error

    def _check_still_there(self) -> None:
        if self._segment.truncations != self._truncations:
            raise PenstockError(Problem.OFFSET_NOT_AVAILABLE, "the log was truncated while it was read: read again")


class TailSlice(SearchedSlice):
    """A part of the segment's end that this process wrote a moment ago, so what is in the page cache is right."""

    __slots__ = ("_position",)

    def __init__(self, segment: Segment, query: Query, interval_bytes: int, position: int, length: int) -> None:
        super().__init__(segment, query, interval_bytes)
        self._position = position
        self.length = length

    def cached(self) -> Buffer | None:
        if self._segment.truncations != self._truncations:
            return None
        if not self._segment.known.holds(self._position, self.length):
            # It has left the page cache meanwhile.
            return super().cached()
        return self._read_cached(self._position, self.length)


EMPTY = Slice(0)


def unreadable(path: str, error: OSError) -> PenstockError:
    return PenstockError(Problem.STORAGE_FAILED, f"{path} cannot be read: {error}. Check the disk")


def _is_behind_damage(segment: Segment, position: int) -> bool:
    """Then offsets may be missing there, if the damage was at the end when a follower went on behind a gap."""
    return any(damage.end_position == position for damage in segment.damage)


def _part(data: Buffer, selection: Selection) -> Buffer:
    """A view: what was read may be a megabyte, and on its way to a client nobody copies it again."""
    return memoryview(data)[selection.start : selection.end]
