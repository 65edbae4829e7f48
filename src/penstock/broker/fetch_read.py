"""One pass over the partitions of a fetch, within its limits; what is not in the page cache is left for the pool."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, Protocol

from penstock.broker.fetch_sessions import Wanted
from penstock.disk.interface import Buffer
from penstock.errors import PenstockError, Refused
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.storage.core.aborted import AbortedTransactions
from penstock.storage.core.leader_epochs import EpochEnd
from penstock.storage.log import Slice
from penstock.units import KIB
from penstock.wire.batch import LENGTH_OVERHEAD, read_header
from penstock.wire.fetched import AbortedTransaction
from penstock.wire.stored_batches import StoredBatches

# Less than this from one segment: compaction may have left only empty batches there, and a client that gets nothing
# but those for an answer takes its limits for too small. So the next segment's are added.
SPARSE_BYTES: Final = 4 * KIB
# From here on it costs less to have the socket take records from their file than to copy them twice.
FILED_BYTES: Final = 128 * KIB
NO_REPLICA: Final = -1

_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8


class Row:
    """What there is to say about one partition, and where reading it stands."""

    __slots__ = (
        "aborted",
        "bytes_left",
        "high_watermark",
        "is_held",
        "last_stable_offset",
        "next_offset",
        "parting",
        "partition",
        "preferred_replica",
        "records",
        "refused",
        "slice",
        "start_offset",
        "truncations",
        "wanted",
    )

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.next_offset = wanted.fetch_offset
        self.bytes_left = 0
        self.partition: Partition | None = None
        # What the pool has to load.
        self.slice: Slice | None = None
        self.refused: Refused | None = None
        self.records: list[Buffer | StoredBatches] = []
        self.high_watermark = -1
        # As it was when the row was begun, because of this one it is known what was aborted below it. Followers have
        # their own.
        self.last_stable_offset = -1
        self.aborted: AbortedTransactions | None = None
        self.start_offset = -1
        # How often the log had been cut when the row was begun.
        self.truncations = 0
        # Where the log of the follower that fetches parts from this one.
        self.parting: EpochEnd | None = None
        # Where the consumer should read instead.
        self.preferred_replica = NO_REPLICA
        # It gets nothing now, whatever there is.
        self.is_held = False

    @property
    def has_news(self) -> bool:
        """Whether an incremental answer names it."""
        return (
            bool(self.records)
            or self.refused is not None
            or self.parting is not None
            or self.preferred_replica != NO_REPLICA
            or self.high_watermark != self.wanted.told_high_watermark
            or self.start_offset != self.wanted.told_start_offset
        )

    def readable(self) -> Partition | None:
        """If it may be read further after a wait. It may be gone, about to be cut, or cut: what is known of it here was

        so of other records. And compaction may have taken the marker of a transaction that is to be told of: a client
        that does not meet its end leaves out what its producer committed later.
        """
        partition = self.partition
        if partition is None or not partition.may_be_read(as_closest=True):
            return None
        if partition.log.truncations != self.truncations:
            return None
        if self.aborted is not None and not self.aborted.is_all_of(partition.log.aborted.rows):
            return None
        return partition

    def aborted_transactions(self) -> list[AbortedTransaction]:
        """Those that a reader of committed records has to leave out of what it gets."""
        offset = self.wanted.fetch_offset
        if not self.records or self.aborted is None or not self.aborted.ends_from(offset):
            return []
        found = self.aborted.overlapping(offset, _end_offset(self.records[-1]))
        return [AbortedTransaction(row.producer_id, row.first_offset) for row in found]

    def is_there(self) -> bool:
        """Whether what is to be sent from a file is what it was."""
        return all(data.is_there() for data in self.records if isinstance(data, StoredBatches))

    def fail(self, error: PenstockError) -> None:
        """Better the records before the damage than the error alone; the client's next fetch meets it again."""
        if not self.records:
            self.refused = Refused.by(error)

    def take(self, data: Buffer | StoredBatches) -> bool:
        """Adds what was read; True if more should be read before it is an answer."""
        if not data:
            return False
        self.records.append(data)
        self.bytes_left -= len(data)
        if len(data) >= SPARSE_BYTES or self.bytes_left <= 0:
            return False
        self.next_offset = _end_offset(data)
        return self.partition is not None and self.next_offset < self.partition.log.end_offset


class Limits(Protocol):
    """Of one who may not read as fast as it can."""

    def limit(self, partition: Partition, row: Row) -> None:
        """Lowers `bytes_left`, or holds the row."""

    def has_read(self, size_bytes: int) -> None:
        """What became of that; not called for a row that is held."""

    def wait_ms(self, max_wait_ms: int) -> int:
        """How long to wait when there was nothing to read."""


class Reader(Protocol):
    """On whose behalf partitions are read."""

    @property
    def is_follower(self) -> bool: ...

    @property
    def limits(self) -> Limits | None: ...

    @property
    def reads_committed(self) -> bool: ...

    def admit(self, partition: Partition, row: Row) -> Refused | None:
        """Whether it may read, and what there is to say to it besides records, or instead."""


class FetchRead:
    """`enough_bytes`: how many should be in memory at once; `max_bytes` in all, of which some may be in files."""

    __slots__ = (
        "_enough_bytes",
        "_full",
        "_max_bytes",
        "_reads_committed",
        "_stored",
        "_takes_files",
        "_to_end",
        "cold",
        "failed",
        "rows",
        "size",
    )

    def __init__(
        self,
        max_bytes: int,
        enough_bytes: int,
        min_bytes: int,
        *,
        to_end: bool = False,
        reads_committed: bool = False,
        takes_files: bool = False,
    ) -> None:
        self._to_end = to_end
        self._takes_files = takes_files
        self._reads_committed = reads_committed
        self._max_bytes = max_bytes
        self._enough_bytes = enough_bytes
        # What would be left is smaller than most batches, and to look for one that fits costs as much as to read it.
        self._full = max(min_bytes, enough_bytes - enough_bytes // 4)
        self.rows: list[Row] = []
        # Rows whose bytes must be waited for; `size` counts them with the most that they may become.
        self.cold: list[Row] = []
        self.size = 0
        self._stored = 0
        self.failed = False

    def room(self) -> int | None:
        """How many bytes may be added; None: it is full enough. A first batch may be larger than all that was asked

        for.
        """
        # What stays in its file takes a quarter of the time.
        in_memory = self.size - self._stored
        left = min(self._enough_bytes - in_memory, self._max_bytes - self.size)
        return None if self.size and (in_memory + self._stored // 4 >= self._full or left <= 0) else max(0, left)

    def read_on(self, row: Row, partition: Partition) -> None:
        """From where the row stands, until there is an answer or the pool is needed."""
        more = True
        stable_offset = row.last_stable_offset if self._reads_committed else None
        while more:
            part = partition.read(
                row.next_offset, row.bytes_left, self.size == 0, to_end=self._to_end, stable_offset=stable_offset
            )
            if not part.length:
                return
            data: Buffer | StoredBatches | None = None
            if self._takes_files and part.length >= FILED_BYTES:
                data = part.in_file()
            if data is None:
                data = part.cached()
            if data is None:
                row.slice = part
                self.cold.append(row)
                self.size += min(part.length, max(1, row.bytes_left))
                return
            self.size += len(data)
            if isinstance(data, StoredBatches):
                self._stored += len(data)
            more = row.take(data)

    def loaded(self, row: Row, data: Buffer) -> None:
        """The pool has brought a cold row's bytes; it may be cold again afterwards, further on."""
        if row.slice is not None:
            row.slice.has_loaded()
        if row.take(data) and (partition := row.readable()) is not None:
            self.read_on(row, partition)

    def read_what_is_gone(self) -> None:
        """Other rows had to be waited for, and that may have put out of the page cache what was to be sent from there.

        From now on everything is read into memory, so that an answer is there sooner or later.
        """
        self._takes_files = False
        for row in self.rows:
            if not row.is_there():
                row.bytes_left += sum([len(data) for data in row.records])
                row.records, row.next_offset = [], row.wanted.fetch_offset
                try:
                    if (partition := row.readable()) is not None:
                        self.read_on(row, partition)
                except PenstockError as error:
                    row.fail(error)


def read_all(replicas: Replicas, wanted: Iterable[Wanted], read: FetchRead, reader: Reader) -> FetchRead:
    """The first partition with records gives at least one batch, however large: a consumer must get past it."""
    for each in wanted:
        _read_row(read, replicas, each, reader)
    return read


def read_again(replicas: Replicas, before: FetchRead, read: FetchRead, reader: Reader) -> FetchRead:
    """What a follower waited for. Where it had everything, only what has more is read."""
    for row in before.rows:
        partition = row.partition
        if partition is not None and _has_nothing_new(partition, row.wanted):
            row.high_watermark, row.start_offset = partition.high_watermark, partition.log.start_offset
            read.rows.append(row)
        else:
            _read_row(read, replicas, row.wanted, reader)
    return read


def _has_nothing_new(partition: Partition, wanted: Wanted) -> bool:
    return (
        partition.leadership is not None
        and partition.leader_epoch == wanted.current_leader_epoch
        and partition.log.end_offset == wanted.fetch_offset
    )


def _read_row(read: FetchRead, replicas: Replicas, wanted: Wanted, reader: Reader) -> None:
    row = Row(wanted)
    read.rows.append(row)
    partition = (
        replicas.find(wanted.topic, wanted.index)
        if wanted.topic_id is None
        else replicas.find_by_id(wanted.topic_id, wanted.index)
    )
    row.refused = partition if isinstance(partition, Refused) else reader.admit(partition, row)
    if row.refused is not None or isinstance(partition, Refused):
        read.failed = True
        return
    row.partition = partition
    row.high_watermark = partition.high_watermark
    if not reader.is_follower:
        row.last_stable_offset = partition.last_stable_offset
        if reader.reads_committed and partition.log.aborted.rows:
            row.aborted = partition.log.aborted.rows.as_of_now()
    row.start_offset = partition.log.start_offset
    row.truncations = partition.log.truncations
    if row.parting is not None or row.preferred_replica != NO_REPLICA:
        # Said at once, and without records.
        read.failed = True
    elif not reader.is_follower or wanted.fetch_offset != partition.log.end_offset:
        room = read.room()
        if room is not None:
            row.bytes_left = max(0, min(wanted.max_bytes, room))
            _read_records(read, row, partition, reader.limits)


def _read_records(read: FetchRead, row: Row, partition: Partition, limits: Limits | None) -> None:
    if limits is not None:
        limits.limit(partition, row)
        if row.is_held:
            return
    size = read.size
    try:
        read.read_on(row, partition)
    except PenstockError as error:
        row.fail(error)
        read.failed = True
    if limits is not None:
        limits.has_read(read.size - size)


def _end_offset(data: Buffer | StoredBatches) -> int:
    """Behind the last batch; `data` is whole ones, thousands of them where transactions are small."""
    if isinstance(data, StoredBatches):
        return data.end_offset
    following, size = 0, len(data)
    while following < size:
        at = following
        following += LENGTH_OVERHEAD + _LENGTH.unpack_from(data, at + _LENGTH_POSITION)[0]
    return read_header(data, at).next_offset
