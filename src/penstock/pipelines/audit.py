"""`audit`: every replica's segments, indexes and checkpoints, read in parallel, and the replicas compared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple

import msgspec
from pyspark import StorageLevel
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipelines.audit_differences import Difference, differences
from penstock.pipelines.audit_tasks import COLUMNS, SegmentTasks, Source
from penstock.pipelines.core.audit_compare import Comparison
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_plan import (
    Name,
    absent_brokers,
    absent_logs,
    by_partition,
    comparisons_of,
    difference,
    is_explained,
    jobs_of,
    log_findings,
    untold,
)
from penstock.pipelines.core.audit_report import AuditReport, PartitionOutcome
from penstock.pipelines.core.audit_rounds import settled
from penstock.pipelines.core.audit_segment import SegmentJob, SegmentReport
from penstock.pipelines.core.audit_source import FileUnreadable, LogChanged, NobodyAnswers, SegmentGone, whole
from penstock.pipelines.core.audited_log import AuditedLog
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.spark.core.failures import ClientFailure
from penstock.storage.core.aborted import AbortedTransaction, unpack_rows
from penstock.units import MIB
from penstock.wire.audit_messages import FileKind, FileName

# Of small segments, one task reads several.
_TASK_BYTES = 64 * MIB
_DRAW_EVERY_S = 0.5

# Which replicas there should be now, by their names.
Expected = Callable[[], Mapping[Name, Sequence[str]]]
# Bytes that have been read, and how many there are.
Told = Callable[[int, int], None]


class _Wanted(NamedTuple):
    """Of these topics, or of all; or these partitions alone."""

    named: frozenset[str] | None
    names: Collection[Name] | None

    @property
    def topics(self) -> frozenset[str] | None:
        return self.named if self.names is None else frozenset(topic for topic, _ in self.names)

    def has(self, name: Name) -> bool:
        return name in self.names if self.names is not None else self.named is None or name[0] in self.named


class Audit:
    """`sources`: each another replica. `expected`: none where nobody knows, as of directories. `topics`: all, if none

    are named.
    """

    def __init__(
        self,
        session: SparkSession,
        sources: Sequence[Source],
        expected: Expected,
        topics: frozenset[str] | None,
        told: Told,
    ) -> None:
        self._session = session
        self._sources = sources
        self._expected = expected
        self._topics = topics
        self._told = told

    def run(self) -> AuditReport:
        """Raises PipelineRefused."""
        if len(self._numbers()) < len(self._sources):
            raise PipelineRefused("a directory is named twice, and would be compared with itself")
        report = self._round(None)
        # What no node uses is the same whenever it is read.
        is_served = any(source.is_served for source in self._sources)
        return settled(report, self._round) if is_served else report

    def _round(self, names: Collection[Name] | None) -> AuditReport:
        """Of these partitions, or of all that are to be audited."""
        logs, report = self._load(names)
        comparisons = comparisons_of(logs)
        jobs = jobs_of(logs, self._numbers(), comparisons, self._aborted_of)
        reports, differing = self._read(jobs) if jobs else ([], [])
        of_log: dict[tuple[Name, str], list[SegmentReport]] = {}
        for each in reports:
            report.partitions[each.topic, each.partition].add(each)
            of_log.setdefault(((each.topic, each.partition), each.replica), []).append(each)
        for log in logs:
            outcome = report.partitions[log.name]
            outcome.findings += untold(log_findings(log, of_log.get((log.name, log.replica), [])), outcome.findings)
        for name, comparison in comparisons.items():
            report.partitions[name].comparison = comparison
        for name, found in groupby(differing, key=lambda each: each.name):
            outcome = report.partitions[name]
            if outcome.is_complete:
                # A range of which retention has taken a part somewhere says nothing.
                kept = [each for each in found if each.offset >= outcome.gone_offset]
                outcome.findings += _told_differences(name, kept, comparisons[name], outcome.findings)
        return report

    def _load(self, names: Collection[Name] | None) -> tuple[list[AuditedLog], AuditReport]:
        wanted = _Wanted(self._topics, names)
        expected = {name: replicas for name, replicas in self._expected().items() if wanted.has(name)}
        report = AuditReport({}, [])
        logs: list[AuditedLog] = []
        findings: list[Finding] = []
        there: set[tuple[Name, str]] = set()
        heard: set[str] = set()
        for source in self._sources:
            try:
                loaded = source.load(wanted.topics)
            except (NobodyAnswers, ClientFailure) as error:
                report.others.append(Finding("", -1, source.replica, Fault.NOT_AUDITED, str(error)))
                continue
            finally:
                source.close()
            heard.add(source.replica)
            logs += [log for log in loaded.logs if wanted.has(log.name)]
            findings += [finding for finding in loaded.findings if wanted.has((finding.topic, finding.partition))]
            for name in filter(wanted.has, loaded.changed):
                there.add((name, source.replica))
                report.partitions.setdefault(name, PartitionOutcome()).has_changed = True
        for name, replicas in by_partition(logs).items():
            report.partitions.setdefault(name, PartitionOutcome()).replicas = len(replicas)
        there |= {(log.name, log.replica) for log in logs}
        findings += absent_logs(expected, there, heard)
        report.others.extend(absent_brokers(expected, self._numbers()))
        for finding in findings:
            name = finding.topic, finding.partition
            report.partitions.setdefault(name, PartitionOutcome()).findings.append(finding)
        if names is None and self._topics is not None:
            _refuse_unknown(self._topics, {*report.partitions, *expected})
        return logs, report

    def _numbers(self) -> dict[str, int]:
        return {source.replica: number for number, source in enumerate(self._sources)}

    def _aborted_of(self, log: AuditedLog) -> list[AbortedTransaction]:
        """What cannot be read is told by the segment's own check."""
        source = self._sources[self._numbers()[log.replica]]
        files = source.files(log.topic, log.topic_id, log.partition, log.truncations)
        rows: list[AbortedTransaction] = []
        for segment in log.segments:
            row = log.row_of(segment)
            if row is None or not row.aborted:
                continue
            name = FileName(FileKind.TRANSACTION_INDEX, segment.base_offset, segment.generation)
            try:
                stored = unpack_rows(whole(files, name) or b"")
            except (FileUnreadable, LogChanged, SegmentGone, NobodyAnswers):
                continue
            if stored is not None:
                rows += stored.rows[: row.aborted]
        source.close()
        return rows

    def _read(self, jobs: Sequence[SegmentJob]) -> tuple[list[SegmentReport], list[Difference]]:
        session, total_bytes = self._session, sum(job.segment.size for job in jobs)
        done_bytes = session.sparkContext.accumulator(0)
        most_tasks = max(4 * session.sparkContext.defaultParallelism, total_bytes // _TASK_BYTES)
        # Not by Arrow: what takes functions over it asks for pandas too, and rows are few beside what is read for them.
        tasks = session.sparkContext.parallelize(jobs, min(len(jobs), most_tasks))
        found = tasks.mapPartitions(SegmentTasks(self._sources, done_bytes).run)
        rows = session.createDataFrame(found, COLUMNS, verifySchema=False)
        # The segments are read once, whatever is asked of what was found.
        rows = rows.persist(StorageLevel.DISK_ONLY)
        try:
            with _drawn(done_bytes, total_bytes, self._told):
                reports = rows.where(F.col("report").isNotNull()).select("report").collect()
            return [msgspec.json.decode(row.report, type=SegmentReport) for row in reports], differences(rows)
        finally:
            rows.unpersist()


def _refuse_unknown(topics: frozenset[str], known: Collection[Name]) -> None:
    """Or else a wrong name would be a sound topic."""
    unknown = sorted(topics - {topic for topic, _ in known})
    if unknown:
        raise PipelineRefused(f"there is no topic {', '.join(unknown)}")


@contextmanager
def _drawn(done_bytes: Accumulator[int], total_bytes: int, told: Told) -> Iterator[None]:
    """Tells how far the tasks are until the block is left."""
    ended = threading.Event()

    def draw() -> None:
        while not ended.wait(_DRAW_EVERY_S):
            told(done_bytes.value, total_bytes)

    drawing = threading.Thread(target=draw, name="penstock-audit-progress", daemon=True)
    drawing.start()
    try:
        yield
    finally:
        ended.set()
        drawing.join()
        told(total_bytes, total_bytes)


def _told_differences(
    name: Name, found: Sequence[Difference], comparison: Comparison, known: Sequence[Finding]
) -> list[Finding]:
    """Neighbours as one. What is no wonder, because a replica is known to lack something there, is left out."""
    ranges: list[tuple[int, int, Difference]] = []
    for each in found:
        end = each.offset + 1 if each.by_key else min(each.offset + comparison.window, comparison.limit)
        first = max(each.offset, comparison.start)
        if is_explained(known, first, end):
            continue
        if ranges and not each.by_key and ranges[-1][1] == first and ranges[-1][2].replicas == each.replicas:
            ranges[-1] = ranges[-1][0], end, ranges[-1][2]
        else:
            ranges.append((first, end, each))
    return [difference(name, each.replicas, first, end, each.text()) for first, end, each in ranges]
