"""A batch query: everything between two positions, as it is when the query is planned."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.cluster import Cluster
from penstock.spark.core.filters import PushedFilters, push
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.planning import plan_batch, split
from penstock.spark.core.source_options import SourceOptions
from penstock.spark.task_rows import RangePartition, TaskRows
from penstock.spark.topic_offsets import TopicOffsets, client_settings

_log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Without `pushFilters`: Spark refuses a reader that has it, unless its own switch is on."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = TaskRows(options, schema)
        self._pushed = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        for warning in self._options.warnings:
            _log.warning(warning)
        options = self._options
        with Cluster(client_settings(options)) as cluster:
            offsets = TopicOffsets(cluster, options)
            start = offsets.at(options.start, starting=True)
            end = offsets.at(options.end, starting=False)
            ranges = self._narrowed(plan_batch(start, end), offsets)
        return [
            RangePartition(piece) for piece in split(ranges, options.min_partitions, options.max_records_per_partition)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.read(partition, self._pushed.of_rows())

    def _narrowed(self, ranges: Iterable[OffsetRange], offsets: TopicOffsets) -> list[OffsetRange]:
        wanted = [one for one in ranges if self._pushed.wants(one.topic_partition)]
        moment_ms = self._pushed.earliest_ms()
        if moment_ms is not None and wanted:
            first = offsets.first_since([one.topic_partition for one in wanted], moment_ms)
            begins = {tp: offset for tp, offset in first.items() if offset is not None}
            wanted = [
                replace(one, start=max(one.start, begins[one.topic_partition]))
                for one in wanted
                if one.topic_partition in begins
            ]
        bounds = [self._pushed.narrowed(one.start, one.end) for one in wanted]
        return [
            replace(one, start=begin, end=end) for one, (begin, end) in zip(wanted, bounds, strict=True) if begin < end
        ]


class FilteringBatchReader(BatchReader):
    """With `pushFilters`, for the option `filterPushdown`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pushed, rest = push(filters)
        _log.warning(
            "Pushed to the source: %s. Spark keeps one plan per load(): load() again for another filter",
            self._pushed.filters,
        )
        return rest
