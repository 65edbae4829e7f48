"""One pass over the partitions of a fetch, within its limits; what is not in the page cache is left for the pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.broker.fetch_sessions import Wanted
from penstock.errors import PenstockError, Refused
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.storage.log import Slice


class Row:
    """What there is to say about one partition."""

    __slots__ = ("high_watermark", "partition", "records", "refused", "slice", "start_offset", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.partition: Partition | None = None
        self.slice: Slice | None = None
        self.refused: Refused | None = None
        self.records: Sequence[bytes | bytearray | memoryview] = ()
        self.high_watermark = -1
        self.start_offset = -1

    @property
    def has_news(self) -> bool:
        """Whether an incremental answer names it."""
        return (
            bool(self.records)
            or self.refused is not None
            or self.high_watermark != self.wanted.told_high_watermark
            or self.start_offset != self.wanted.told_start_offset
        )


class FetchRead:
    __slots__ = ("cold", "failed", "rows", "size")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        # Rows whose bytes must be waited for; `size` counts them with the most that they may become.
        self.cold: list[Row] = []
        self.size = 0
        self.failed = False


def read_all(replicas: Replicas, wanted: Iterable[Wanted], max_bytes: int) -> FetchRead:
    """The first partition with records gives at least one batch, however large: a consumer must get past it."""
    read = FetchRead()
    for each in wanted:
        row = Row(each)
        read.rows.append(row)
        partition = (
            replicas.leader(each.topic, each.index, each.current_leader_epoch)
            if each.topic_id is None
            else replicas.leader_by_id(each.topic_id, each.index, each.current_leader_epoch)
        )
        if isinstance(partition, Refused):
            row.refused = partition
            read.failed = True
            continue
        row.partition = partition
        row.high_watermark = partition.high_watermark
        row.start_offset = partition.log.start_offset
        try:
            _read(row, partition, read, max_bytes - read.size)
        except PenstockError as error:
            row.refused = Refused.by(error)
            read.failed = True
    return read


def _read(row: Row, partition: Partition, read: FetchRead, bytes_left: int) -> None:
    max_bytes = min(row.wanted.max_bytes, bytes_left)
    part = partition.read(row.wanted.fetch_offset, max_bytes, at_least_one=read.size == 0)
    if not part.length:
        return
    data = part.cached()
    if data is None:
        row.slice = part
        read.cold.append(row)
        read.size += min(part.length, max(1, max_bytes))
    elif data:
        row.records = (data,)
        read.size += len(data)
