"""Where the reading of a range is, and what keeps it from going on."""

from __future__ import annotations

import logging
import time

from kio.schema.errors import ErrorCode

from penstock.spark.cluster import EARLIEST, LATEST, Cluster
from penstock.spark.core.failures import Again, DataLoss, TopicMissing, Unavailable, lost_records
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.range_fetches import RangeFetches
from penstock.wire.fetch_answer import PartitionAnswer

_logger = logging.getLogger(__name__)


class RangeProgress:
    """`next_answer`, use it, `move`; until `position` is the range's end."""

    def __init__(self, cluster: Cluster, patience_ms: int, wanted: OffsetRange, fail_on_data_loss: bool) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms
        self._wanted = wanted
        self._fail_on_data_loss = fail_on_data_loss
        self.position = wanted.start
        self._moved_s = time.monotonic()
        # Whether the last answer had nothing, and showed that nothing is to come.
        self._saw_empty_end = False
        # The newest leader known to have all records of the range, as far as elections go.
        self._whole_in_epoch = wanted.leader_epoch

    def next_answer(self, fetches: RangeFetches) -> PartitionAnswer | None:
        """None: `position` has moved over what is lost. Raises DataLoss, unless that is allowed, or Unavailable."""
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

    def _attempt(self, fetches: RangeFetches) -> PartitionAnswer | None:
        self._check_not_cut_off(fetches.leader().leader_epoch)
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

    def _check_not_cut_off(self, leader_epoch: int) -> None:
        """A leader that did not have all records of the range may have been elected since it was planned."""
        if self._wanted.leader_epoch < 0 or leader_epoch <= self._whole_in_epoch:
            return
        partition = self._wanted.topic_partition
        end = self._cluster.epoch_ends({partition: self._wanted.leader_epoch})[partition]
        if 0 <= end < self._wanted.end:
            self._lose(max(end, self.position), self._wanted.end, "an election has cut them off")
        self._whole_in_epoch = leader_epoch

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
