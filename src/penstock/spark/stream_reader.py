"""A streaming query: from offset to offset, as Spark asks for it, in the driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.spark.cluster import Cluster
from penstock.spark.core.failures import DataLoss
from penstock.spark.core.planning import LOSS_IS_A_WARNING, LOSS_IS_AN_ERROR, plan_stream, split, without_begin
from penstock.spark.core.positions import EARLIEST, Everywhere
from penstock.spark.core.source_offset import SourceOffset
from penstock.spark.core.source_options import SourceOptions
from penstock.spark.progress import Progress
from penstock.spark.task_rows import RangePartition, TaskRows
from penstock.spark.topic_offsets import TopicOffsets, client_settings

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one in the driver, which lives as long as the query, and pickles another one for the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = TaskRows(options, schema)
        self._driver: _Driver | None = None
        self._only_available_now = False
        # What was there when a run with Trigger.AvailableNow began: it ends there.
        self._target: SourceOffset | None = None
        self._latest: SourceOffset | None = None
        self._last_batch_s: float | None = None
        # Where the first batch begins, if this run has it.
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Spark runs no batch as long as nothing is new, and records nothing before it runs one.

        So that a stream which was begun at the end is begun there for good, what it returns is never the newest offset:
        without ids it differs from what `latestOffset` will say, and there is a first batch, if an empty one. The
        beginning of a log needs none of that. But also there the end of the first batch says where it began: when it is
        done again there may be more partitions, or the log may begin later.
        """
        offset = self._driving().offsets.at(self._options.start, starting=True)
        is_fixed = self._options.start == Everywhere(EARLIEST)
        self._initial = (offset if is_fixed else SourceOffset(offset.offsets)).document()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark has no way to say both at once; `latestOffset` looks at the options."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        self._only_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """`start` is where the last batch has ended, and Spark has recorded that: so it is what gets published."""
        driver = self._driving()
        begin = SourceOffset.of_document(start)
        latest = self._target or driver.offsets.latest(begin)
        if self._only_available_now:
            self._target = latest
        self._latest = latest
        driver.publish(begin, latest)
        end = latest if isinstance(limit, ReadAllAvailable) else self._admitted(begin, latest, driver.offsets)
        if end is None or (end.offsets == begin.offsets and begin.has_all_ids and not begin.renewed_topics(end)):
            # The same text, else Spark would run a batch for it.
            return start
        ended = end.after(begin)
        return (replace(ended, begins=begin.offsets) if start == self._initial else ended).document()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None or not self._latest.offsets else self._latest.document()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        offsets = self._driving().offsets
        first, last = SourceOffset.of_document(start), SourceOffset.of_document(end)
        # What `latestOffset` has seen a moment ago; a batch that is done again comes without it.
        now = self._latest or offsets.topic_ids()
        first, last = last.begun(first), last.identified(now)
        earliest, cut_off = offsets.earliest(without_begin(first, last)), offsets.cut_off(first, last)
        plan = plan_stream(first, last, earliest, now, cut_off)
        for loss in plan.losses:
            if self._options.fail_on_data_loss:
                raise DataLoss(LOSS_IS_AN_ERROR + loss)
            _log.warning("%s %s", loss, LOSS_IS_A_WARNING)
        pieces = split(plan.ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.read(partition)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _driving(self) -> _Driver:
        if self._driver is None:
            for warning in self._options.warnings:
                _log.warning(warning)
            self._driver = _Driver(self._options)
        return self._driver

    def _admitted(self, begin: SourceOffset, latest: SourceOffset, offsets: TopicOffsets) -> SourceOffset | None:
        """None: not yet."""
        begins = {**begin.offsets, **offsets.earliest(without_begin(begin, latest))}
        limits = self._options.limits
        available = sum(max(0, end - begins.get(tp, end)) for tp, end in latest.offsets.items())
        now_s = time.monotonic()
        since_ms = None if self._last_batch_s is None else round((now_s - self._last_batch_s) * 1000)
        # A run that is to end does not wait for more.
        if not self._only_available_now and limits.is_too_early(available, since_ms):
            return None
        self._last_batch_s = now_s
        return SourceOffset(limits.limited(begins, latest.offsets), latest.leader_epochs, latest.topic_ids)


class _Driver:
    """What the driver's reader keeps open."""

    def __init__(self, options: SourceOptions) -> None:
        self._cluster = Cluster(client_settings(options))
        self.offsets = TopicOffsets(self._cluster, options)
        self._progress = None if options.group is None else Progress(self._cluster, options.group)

    def publish(self, done: SourceOffset, latest: SourceOffset) -> None:
        """Of topics that are still there, else nobody could commit it."""
        if self._progress is not None:
            renewed = done.renewed_topics(latest)
            there = {
                tp: offset for tp, offset in done.offsets.items() if tp in latest.offsets and tp.topic not in renewed
            }
            self._progress.publish(there)

    def close(self) -> None:
        self._cluster.close()
