"""From the logs of all replicas to what is to be read of each segment, and back to what the logs as a whole lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from penstock.pipelines.core.audit_compare import Comparison, comparison_of
from penstock.pipelines.core.audit_findings import LOSSES, Fault, Finding
from penstock.pipelines.core.audit_segment import SegmentJob, SegmentReport
from penstock.pipelines.core.audited_log import UNKNOWN, AuditedLog
from penstock.storage.core.aborted import AbortedTransaction
from penstock.wire.audit_messages import ListedSegment

Name = tuple[str, int]
# No segment spans more offsets, so a compacted log may have a larger gap between two of them.
_MOST_OFFSETS = 2**31 - 1

# Which transactions of the log were aborted, as its indexes say.
AbortedOf = Callable[[AuditedLog], Sequence[AbortedTransaction]]


def by_partition(logs: Iterable[AuditedLog]) -> dict[Name, list[AuditedLog]]:
    found: dict[Name, list[AuditedLog]] = {}
    for log in logs:
        found.setdefault(log.name, []).append(log)
    return found


def comparisons_of(logs: Iterable[AuditedLog]) -> dict[Name, Comparison]:
    found = {name: comparison_of(replicas) for name, replicas in by_partition(logs).items()}
    return {name: comparison for name, comparison in found.items() if comparison is not None}


def absent_logs(
    expected: Mapping[Name, Sequence[str]], there: Collection[tuple[Name, str]], heard: Collection[str]
) -> Iterator[Finding]:
    """Replicas that brokers should have, and do not tell of. `expected`: by partition. `heard`: who has answered."""
    for (topic, partition), replicas in expected.items():
        for replica in replicas:
            if replica in heard and ((topic, partition), replica) not in there:
                yield Finding(topic, partition, replica, Fault.NOT_AUDITED, "the broker does not have its log open")


def absent_brokers(expected: Mapping[Name, Sequence[str]], known: Collection[str]) -> Iterator[Finding]:
    """Those that should have replicas, and could not even be asked."""
    counts = Counter(replica for replicas in expected.values() for replica in replicas if replica not in known)
    for replica, count in sorted(counts.items()):
        text = f"the broker is not there, so its replicas of {count} partitions were not read"
        yield Finding("", -1, replica, Fault.NOT_AUDITED, text)


def jobs_of(
    logs: Sequence[AuditedLog],
    sources: Mapping[str, int],
    comparisons: Mapping[Name, Comparison],
    aborted_of: AbortedOf,
) -> list[SegmentJob]:
    """One for each segment, so that neighbours are of different replicas: each has a disk and a limit of its own.

    `sources`: by replica.
    """
    jobs = []
    aborted = _aborted(logs, comparisons, aborted_of)
    for log in logs:
        comparison = comparisons.get(log.name)
        epochs = tuple(log.epochs().starts())
        for segment in log.segments:
            job = SegmentJob(
                source=sources[log.replica],
                replica=log.replica,
                topic=log.topic,
                topic_id=log.topic_id,
                partition=log.partition,
                truncations=log.truncations,
                segment=segment,
                is_served=log.is_served,
                is_last=segment is log.segments[-1],
                may_have_gaps=log.may_have_gaps,
                start_offset=log.start_offset,
                row=log.row_of(segment),
                epochs=epochs,
                vouched_offset=log.vouched_offset,
                comparison=comparison,
                aborted=tuple(row for row in aborted.get(log.name, ()) if _concerns(row, segment)),
            )
            jobs.append(job)
    return sorted(jobs, key=lambda job: (job.topic, job.partition, job.segment.base_offset, job.replica))


def _aborted(
    logs: Sequence[AuditedLog], comparisons: Mapping[Name, Comparison], aborted_of: AbortedOf
) -> dict[Name, set[AbortedTransaction]]:
    """Of partitions that are compared by keys. What was aborted is so on all: if the index of one is damaged or

    lies, that is told of the index, and its records do not count for another reason.
    """
    found: dict[Name, set[AbortedTransaction]] = {}
    for log in logs:
        comparison = comparisons.get(log.name)
        if comparison is not None and comparison.by_key:
            found.setdefault(log.name, set()).update(aborted_of(log))
    return found


def _concerns(row: AbortedTransaction, segment: ListedSegment) -> bool:
    is_before_end = segment.next_offset == UNKNOWN or row.first_offset < segment.next_offset
    return is_before_end and row.last_offset >= segment.base_offset


def log_findings(log: AuditedLog, reports: Sequence[SegmentReport]) -> list[Finding]:
    """What no segment tells alone. `reports`: of all of this log's. Nothing, if some of them tell nothing."""
    found: list[Finding] = []

    def find(fault: Fault, text: str, first_offset: int = -1, next_offset: int = -1) -> None:
        found.append(Finding(log.topic, log.partition, log.replica, fault, text, "", first_offset, next_offset))

    if log.failure is not None:
        find(Fault.FAILED_LOG, log.failure)
    if log.lost is not None:
        find(Fault.MISSING_OFFSETS, "no segment was left of the log when its node started", *log.lost)
    if any(report.has_changed or report.silence for report in reports):
        return found
    gone = gone_offset(reports)
    ordered = sorted((each for each in reports if each.base_offset >= gone), key=lambda report: report.base_offset)
    if ordered or not gone:
        _look_at_ends(log, max(log.start_offset, gone), ordered, find)
    _look_at_transactions(log, ordered, find)
    for before, after in pairwise(ordered):
        missing = after.base_offset - before.next_offset
        if missing < 0:
            text = f"segment {before.base_offset} goes up to {before.next_offset}, where another one has begun"
            find(Fault.OVERLAP, text, after.base_offset, before.next_offset)
        elif missing and not log.may_have_gaps and not _is_told(before, after.base_offset):
            text = f"they are between the segments {before.base_offset} and {after.base_offset}"
            find(Fault.MISSING_OFFSETS, text, before.next_offset, after.base_offset)
        if 0 <= after.first_epoch < before.last_epoch:
            text = f"segment {after.base_offset} begins in leader epoch {after.first_epoch}, the one before it ends in"
            find(Fault.LEADER_EPOCHS, f"{text} {before.last_epoch}", after.base_offset)
    return found


def untold(found: Iterable[Finding], known: Sequence[Finding]) -> list[Finding]:
    """Without offsets of which it is known that the segments are missing which had them."""
    return [each for each in found if each.fault is not Fault.MISSING_OFFSETS or not _is_known(each, known)]


def _is_known(finding: Finding, known: Sequence[Finding]) -> bool:
    offset = finding.first_offset
    for each in sorted(known, key=lambda each: each.first_offset):
        if each.fault is Fault.MISSING_SEGMENT and each.replica == finding.replica and each.first_offset <= offset:
            offset = max(offset, each.next_offset)
    return offset >= finding.next_offset


def gone_offset(reports: Iterable[SegmentReport]) -> int:
    """Retention has taken all below it while the log was read."""
    return max((report.next_offset for report in reports if report.is_gone), default=0)


def _look_at_transactions(log: AuditedLog, ordered: Sequence[SegmentReport], find: Callable[..., None]) -> None:
    """Whether those that are in more than one segment began where the index says."""
    is_whole = all(before.next_offset == after.base_offset for before, after in pairwise(ordered))
    if log.may_have_gaps or not is_whole or any(report.damage for report in ordered):
        return
    begun: dict[int, int] = {}
    for report in ordered:
        for abort in report.spanning:
            began = begun.get(abort.producer_id, abort.seen_offset)
            # What began before the first segment is known to nobody.
            if abort.said_offset != began and abort.said_offset >= ordered[0].base_offset:
                text = (
                    f"what was aborted at offset {abort.offset} begins at {began}, its index says {abort.said_offset}"
                )
                find(Fault.WRONG_TRANSACTION_INDEX, text, abort.offset)
        for producer_id in report.ended:
            begun.pop(producer_id, None)
        begun = {**report.open, **begun}


def _look_at_ends(
    log: AuditedLog, start_offset: int, ordered: Sequence[SegmentReport], find: Callable[..., None]
) -> None:
    if not ordered:
        if log.vouched_offset > start_offset:
            find(Fault.MISSING_OFFSETS, "the log has no segment at all", start_offset, log.vouched_offset)
        return
    first, last = ordered[0], ordered[-1]
    missing = first.base_offset - start_offset
    if missing > 0 and not (log.may_have_gaps and missing > _MOST_OFFSETS):
        text = "the log starts before its first segment"
        find(Fault.MISSING_OFFSETS, text, start_offset, first.base_offset)
    if log.is_served and not log.may_have_gaps and not _is_told(last, log.end_offset):
        # A node that found its last segment gone goes on behind it.
        first_missing = max(last.next_offset, start_offset)
        if first_missing < log.end_offset:
            text = "the log ends behind its last segment"
            find(Fault.MISSING_OFFSETS, text, first_missing, log.end_offset)
    rows = () if log.checkpoint is None else log.checkpoint.segments
    if not log.is_served and rows and not rows[-1].damage:
        # A compacted log that was truncated may end behind its last batch.
        vouched_end = rows[-1].next_offset
        if last.next_offset < vouched_end and not _is_told(last, vouched_end):
            text = "the checkpoint speaks of them, and they are not there"
            find(Fault.MISSING_OFFSETS, text, max(last.next_offset, start_offset), vouched_end)


def _is_told(report: SegmentReport, next_offset: int) -> bool:
    """The segment itself has told that something is missing up to there."""
    return any(after >= next_offset for _, after in report.damage)


def difference(name: Name, replicas: Sequence[str], first_offset: int, next_offset: int, text: str) -> Finding:
    topic, partition = name
    return Finding(topic, partition, ", ".join(replicas), Fault.DIVERGED, text, "", first_offset, next_offset)


def is_explained(findings: Iterable[Finding], first_offset: int, next_offset: int) -> bool:
    """Whether a replica is known to lack something there: that is told already, and no wonder that they differ."""
    return any(
        finding.fault in LOSSES and finding.first_offset < next_offset and finding.next_offset > first_offset
        for finding in findings
    )
