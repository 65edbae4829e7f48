"""The records of a range as Arrow batches: exactly those, whatever brokers do meanwhile."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.record_batches import Walk, walk
from penstock.spark.core.row_columns import Column
from penstock.spark.idle_clusters import borrowed_cluster
from penstock.spark.range_fetches import RangeFetches
from penstock.spark.range_progress import RangeProgress
from penstock.spark.range_rows import RangeRows
from penstock.wire.fetch_answer import PartitionAnswer


class RangeReader:
    """Plain and picklable: connections are made in `read`, or were by an earlier one in the same process."""

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
        with borrowed_cluster(self._settings) as cluster:
            fetches = RangeFetches(cluster, self._settings, wanted, self._read_committed)
            progress = RangeProgress(cluster, self._settings.patience_ms, wanted, self._fail_on_data_loss)
            rows = RangeRows(wanted, self._columns)
            try:
                while progress.position < wanted.end:
                    row = progress.next_answer(fetches)
                    if row is None:
                        continue
                    position = progress.position
                    walked = self._walk(row, position, wanted)
                    progress.move(walked.next_offset, row, self._read_committed)
                    if position < progress.position < wanted.end:
                        # The broker works on it while these rows are decoded and used.
                        fetches.ask_ahead(progress.position)
                    yield from rows.add(row.records, walked.batches, position)
                yield from rows.rest()
            finally:
                fetches.close()

    def _walk(self, row: PartitionAnswer, position: int, wanted: OffsetRange) -> Walk:
        aborted = row.aborted_transactions if self._read_committed else None
        try:
            return walk(row.records, position, wanted.end, aborted)
        except PenstockError as error:
            raise ClientFailure(f"{wanted.topic_partition} cannot be read at offset {position}: {error}") from error
