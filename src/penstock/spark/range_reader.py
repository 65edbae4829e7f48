"""The records of a range as Arrow batches: exactly those, whatever brokers do meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Sequence

import pyarrow as pa
from kio.schema.errors import ErrorCode

from penstock.errors import PenstockError
from penstock.spark.cluster import EARLIEST, LATEST, Cluster
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import Again, ClientFailure, DataLoss, TopicMissing, Unavailable, lost_records
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.record_batches import Walk, walk
from penstock.spark.core.row_columns import Column
from penstock.spark.core.topics import Leader
from penstock.spark.range_fetches import RangeFetches
from penstock.spark.range_rows import RangeRows
from penstock.wire.fetch_answer import PartitionAnswer
from penstock.wire.fetch_response import AbortedTransaction

_logger = logging.getLogger(__name__)


class RangeReader:
    """Plain and picklable: a connection is made in `read`, and is gone when that ends."""

    def __init__(
        self,
        settings: ClientSettings,
        columns: Sequence[str],
        *,
        read_committed: bool = False,
        fail_on_data_loss: bool = True,
    ) -> None:
        """`columns`: names of core/row_columns.py; what is not among them is not even decoded."""
        self._settings = settings
        self._columns = tuple(Column(name) for name in columns)
        self._read_committed = read_committed
        self._fail_on_data_loss = fail_on_data_loss

    def read(self, wanted: OffsetRange) -> Generator[pa.RecordBatch, None, None]:
        """In the order of offsets. It also ends where compaction or markers have left the last offsets empty.

        Raises DataLoss, unless that is allowed: then it warns, and goes on with what there is. Raises TopicRecreated
        in any case, Unavailable if what should be there does not come, and other ClientFailures.
        """
        with Cluster(self._settings) as cluster:
            fetches = RangeFetches(cluster, self._settings, wanted, self._read_committed)
            rows = RangeRows(wanted, self._columns)
            progress = _Progress(cluster, self._settings.patience_ms, wanted, self._fail_on_data_loss)
            progress.check_not_cut_off()
            try:
                while progress.position < wanted.end:
                    row = progress.next_answer(fetches)
                    if row is None:
                        continue
                    position = progress.position
                    aborted = row.aborted_transactions if self._read_committed else None
                    walked = _walked(row, position, wanted, aborted)
                    progress.move(walked.next_offset, row, self._read_committed)
                    if position < progress.position < wanted.end:
                        fetches.ask_ahead(progress.position)
                    yield from rows.add(row.records, walked.batches, position)
                yield from rows.rest()
            finally:
                fetches.close()


class _Progress:
    """Where a reading is, and what keeps it from going on."""

    def __init__(self, cluster: Cluster, patience_ms: int, wanted: OffsetRange, fail_on_data_loss: bool) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms
        self._wanted = wanted
        self._fail_on_data_loss = fail_on_data_loss
        self.position = wanted.start
        self._moved_s = time.monotonic()
        # Whether the last answer had nothing, and showed that nothing is to come.
        self._saw_empty_end = False

    def check_not_cut_off(self) -> None:
        """A leader that did not have all records of the range may have been elected since it was planned."""
        wanted, partition = self._wanted, self._wanted.topic_partition
        if wanted.leader_epoch < 0 or wanted.start >= wanted.end:
            return
        try:
            leader = self._cluster.patiently(f"finding the leader of {partition}", self._leader)
            if leader.leader_epoch <= wanted.leader_epoch or leader.topic_id != wanted.topic_id:
                return
            end = self._cluster.end_of_epoch(partition, wanted.leader_epoch)
        except TopicMissing:
            # The first fetch will say so too.
            return
        if 0 <= end < wanted.end:
            self._lose(max(end, wanted.start), wanted.end, "an election has cut them off")

    def next_answer(self, fetches: RangeFetches) -> PartitionAnswer | None:
        """None: `position` has moved over what is lost."""
        what = f"reading {self._wanted.topic_partition} from offset {self.position} on"
        try:
            return self._cluster.patiently(what, lambda: self._attempt(fetches))
        except TopicMissing as error:
            self._lose(self.position, self._wanted.end, str(error))
            self.position = self._wanted.end
            return None

    def move(self, next_offset: int, row: PartitionAnswer, read_committed: bool) -> None:
        """An answer was seen. Raises Unavailable if nothing has come for too long."""
        now_s = time.monotonic()
        if next_offset > self.position:
            self.position, self._moved_s, self._saw_empty_end = next_offset, now_s, False
            return
        visible_end = row.last_stable_offset if read_committed else row.high_watermark
        if visible_end >= self._wanted.end:
            # All that is visible was looked at. Twice, because once may have been a broker in a hurry.
            if self._saw_empty_end:
                self.position = self._wanted.end
            self._saw_empty_end = True
        elif now_s - self._moved_s > self._patience_ms / 1000:
            text = f"Cannot fetch record for offset {self.position} in {self._patience_ms} milliseconds"
            raise Unavailable(f"{text}: {self._wanted.topic_partition} can be read up to {visible_end} only")

    def _leader(self) -> Leader:
        return self._cluster.leader(self._wanted.topic_partition)

    def _attempt(self, fetches: RangeFetches) -> PartitionAnswer | None:
        row = fetches.fetch(self.position)
        if row.error_code is ErrorCode.none:
            return row
        partition = self._wanted.topic_partition
        earliest = self._offset(EARLIEST)
        if self.position < earliest:
            behind = min(earliest, self._wanted.end)
            self._lose(self.position, behind, f"{partition} begins at offset {earliest} now")
        elif self.position > (latest := self._offset(LATEST)):
            behind = self._wanted.end
            self._lose(self.position, behind, f"{partition} ends at offset {latest} now")
        else:
            raise Again(f"offset {self.position} of {partition} was out of range, and is not any more")
        self.position = behind
        return None

    def _offset(self, at: int) -> int:
        partition = self._wanted.topic_partition
        found = self._cluster.offsets({partition: at})[partition]
        if found is None:
            raise Again(f"{partition} has no offsets")
        return found.offset

    def _lose(self, start: int, end: int, why: str) -> None:
        text = lost_records(str(self._wanted.topic_partition), start, end)
        if self._fail_on_data_loss:
            raise DataLoss(f"{text} {why}")
        _logger.warning("skipping [%d, %d) of %s: %s", start, end, self._wanted.topic_partition, why)


def _walked(row: PartitionAnswer, position: int, wanted: OffsetRange, aborted: list[AbortedTransaction] | None) -> Walk:
    try:
        return walk(row.records, position, wanted.end, aborted)
    except PenstockError as error:
        raise ClientFailure(f"{wanted.topic_partition} cannot be read at offset {position}: {error}") from error
