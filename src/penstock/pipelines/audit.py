"""`audit`: every replica's segments, indexes and checkpoints, read in parallel, and the replicas compared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby

import msgspec
from pyspark import StorageLevel
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipelines.audit_differences import Difference, differences
from penstock.pipelines.audit_tasks import COLUMNS, SegmentTasks, Source
from penstock.pipelines.core.audit_compare import Comparison
from penstock.pipelines.core.audit_findings import Fault, Finding, has_faults
from penstock.pipelines.core.audit_plan import (
    Name,
    by_partition,
    comparisons_of,
    difference,
    is_explained,
    jobs_of,
    log_findings,
)
from penstock.pipelines.core.audit_report import AuditReport, PartitionOutcome
from penstock.pipelines.core.audit_segment import SegmentJob, SegmentReport
from penstock.pipelines.core.audit_source import FileUnreadable, LogChanged, whole
from penstock.pipelines.core.audited_log import AuditedLog
from penstock.spark.core.failures import ClientFailure
from penstock.storage.core.aborted import AbortedTransaction, unpack_rows
from penstock.units import MIB
from penstock.wire.audit_messages import FileKind, FileName

# Of small segments, one task reads several.
_TASK_BYTES = 64 * MIB
# Logs that change while they are read are read again so often, and what is found in a log that is in use is believed
# when it is found twice.
_MOST_ROUNDS = 4
_DRAW_EVERY_S = 0.5

# Which replicas there should be, by their names.
Expected = Mapping[Name, Sequence[str]]
# Bytes that have been read, and how many there are.
Told = Callable[[int, int], None]


class Audit:
    """`expected`: none where nobody knows, as of directories. `topics`: all, if none are named."""

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
        report = self._round(self._topics, None)
        is_served = any(source.is_served for source in self._sources)
        for attempt in range(1, _MOST_ROUNDS):
            doubted = {
                name
                for name, outcome in report.partitions.items()
                if outcome.has_changed or (attempt == 1 and has_faults(outcome.findings))
            }
            if not doubted or not is_served:
                break
            again = self._round(frozenset(topic for topic, _ in doubted), doubted)
            report.partitions.update(again.partitions)
            report.others.extend(again.others)
        for (topic, partition), outcome in report.partitions.items():
            if outcome.has_changed:
                text = "it was truncated, compacted, deleted or moved whenever it was read"
                outcome.findings.append(Finding(topic, partition, "", Fault.NOT_AUDITED, text))
        return report

    def _round(self, topics: frozenset[str] | None, names: set[Name] | None) -> AuditReport:
        """Of these topics and, if given, of their partitions with these names alone."""
        logs, report = self._load(topics, names)
        comparisons = comparisons_of(logs)
        jobs = jobs_of(logs, self._numbers(), comparisons, self._aborted_of)
        reports, differing = self._read(jobs) if jobs else ([], [])
        of_log: dict[tuple[Name, str], list[SegmentReport]] = {}
        for each in reports:
            report.partitions[each.topic, each.partition].add(each)
            of_log.setdefault(((each.topic, each.partition), each.replica), []).append(each)
        for log in logs:
            report.partitions[log.name].findings += log_findings(log, of_log.get((log.name, log.replica), []))
        for name, comparison in comparisons.items():
            report.partitions[name].comparison = comparison
        for name, found in groupby(differing, key=lambda each: each.name):
            outcome = report.partitions[name]
            if not outcome.has_changed:
                outcome.findings += _told_differences(name, list(found), comparisons[name], outcome.findings)
        return report

    def _load(self, topics: frozenset[str] | None, names: set[Name] | None) -> tuple[list[AuditedLog], AuditReport]:
        logs: list[AuditedLog] = []
        report = AuditReport({}, [])
        findings: list[Finding] = []
        silent = set()
        for source in self._sources:
            try:
                loaded = source.load(topics)
            except (FileUnreadable, ClientFailure) as error:
                silent.add(source.replica)
                report.others.append(Finding("", -1, source.replica, Fault.NOT_AUDITED, str(error)))
                continue
            finally:
                source.close()
            logs += [log for log in loaded.logs if names is None or log.name in names]
            findings += [each for each in loaded.findings if names is None or (each.topic, each.partition) in names]
        for name, replicas in by_partition(logs).items():
            report.partitions[name] = PartitionOutcome(replicas=len(replicas))
        findings += self._absent(logs, topics, names, silent)
        for finding in findings:
            name = finding.topic, finding.partition
            report.partitions.setdefault(name, PartitionOutcome()).findings.append(finding)
        return logs, report

    def _absent(
        self, logs: Sequence[AuditedLog], topics: frozenset[str] | None, names: set[Name] | None, silent: set[str]
    ) -> Iterator[Finding]:
        """Replicas that should be there, on brokers that have been asked or that do not run."""
        there = {(log.name, log.replica) for log in logs}
        for (topic, partition), replicas in self._expected.items():
            if (topics is not None and topic not in topics) or (names is not None and (topic, partition) not in names):
                continue
            for replica in replicas:
                if ((topic, partition), replica) not in there and replica not in silent:
                    text = "the broker is not there, or does not have its log open"
                    yield Finding(topic, partition, replica, Fault.NOT_AUDITED, text)

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
            except (FileUnreadable, LogChanged):
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
