"""Audits of logs on a disk in memory, with the replicas compared as Spark would, but in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from penstock.disk.interface import Disk, File, read_whole
from penstock.pipelines.core.audit_digests import Digest
from penstock.pipelines.core.audit_findings import Finding
from penstock.pipelines.core.audit_plan import comparisons_of, jobs_of, log_findings
from penstock.pipelines.core.audit_segment import SegmentAudit, SegmentReport
from penstock.pipelines.core.audit_source import FileMissing, shown, whole
from penstock.pipelines.core.audited_log import AuditedLog, served_log, stopped_log
from penstock.storage.core.aborted import AbortedTransaction, unpack_rows
from penstock.storage.core.checkpoint import Checkpoint, StartOffset
from penstock.storage.core.log_files import CHECKPOINT_NAME, GAPS_NAME, START_OFFSET_NAME
from penstock.storage.core.sealed import unseal
from penstock.storage.log import Log
from penstock.wire.audit_messages import FileKind, FileName, ListedLog, ListedSegment

TOPIC_ID = UUID(int=3)


class DiskFile:
    def __init__(self, file: File) -> None:
        self._file = file
        self.size = file.size()

    def read(self, position: int, length: int, /) -> bytes:
        return self._file.read(position, length)


class DiskFiles:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def open(self, file: FileName) -> DiskFile:
        try:
            return DiskFile(self._disk.open(f"{self._directory}/{shown(file)}"))
        except FileNotFoundError:
            raise FileMissing(shown(file)) from None


def as_served(log: Log, replica: str, before_checkpoint: Callable[[], None] = lambda: None) -> AuditedLog:
    """As its node would list it, all of it committed. `before_checkpoint`: happens before that is read."""
    listed = ListedLog(
        topic="t",
        topic_id=TOPIC_ID,
        partition=0,
        high_watermark=log.end_offset,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        truncations=log.truncations,
        may_have_gaps="compact" in log.settings.cleanup_policy or any(segment.gaps for segment in log.segments),
        segments=tuple(
            ListedSegment(each.base_offset, each.generation, each.size, each.next_offset) for each in log.segments
        ),
    )
    before_checkpoint()
    data = whole(DiskFiles(log.disk, log.directory), FileName(FileKind.CHECKPOINT))
    return served_log(replica, listed, None if data is None else unseal(data, Checkpoint))


def as_stopped(disk: Disk, directory: str, replica: str) -> AuditedLog:
    """As it would be found if its process were gone at this moment."""
    names = disk.list_directory(directory)
    sizes = {name: disk.open(f"{directory}/{name}").size() for name in names}
    checkpoint = start = None
    if CHECKPOINT_NAME in names:
        checkpoint = unseal(read_whole(disk, f"{directory}/{CHECKPOINT_NAME}"), Checkpoint)
    if START_OFFSET_NAME in names:
        start = unseal(read_whole(disk, f"{directory}/{START_OFFSET_NAME}"), StartOffset)
    start_offset = 0 if start is None else start.start_offset
    return stopped_log(replica, "t", TOPIC_ID, 0, sizes, GAPS_NAME in names, checkpoint, start_offset)


def audited(logs: Sequence[tuple[AuditedLog, DiskFiles]]) -> list[Finding]:
    """Replicas of one partition, each under a name of its own. A difference between them fails here."""
    files = {log.replica: each for log, each in logs}
    replicas = [log for log, _ in logs]
    comparisons = comparisons_of(replicas)
    numbers = {log.replica: number for number, log in enumerate(replicas)}
    reports: dict[str, list[SegmentReport]] = {}
    digests: dict[bytes, dict[str, Digest]] = {}
    for job in jobs_of(replicas, numbers, comparisons, lambda log: _aborted(log, files[log.replica])):
        audit = SegmentAudit(job, files[job.replica])
        for digest in audit.digests():
            found = digests.setdefault(digest.slot, {})
            before = found.get(job.replica)
            found[job.replica] = digest if before is None else _together(before, digest)
        reports.setdefault(job.replica, []).append(audit.report)
    for comparison in comparisons.values():
        for answers in digests.values():
            if not comparison.by_key:
                assert len(answers) == len(replicas) and len(set(answers.values())) == 1, answers
            elif max(answer.offset for answer in answers.values()) < comparison.limit:
                living = [answer for answer in answers.values() if answer.parts]
                assert not living or (len(living) == len(replicas) and len(set(living)) == 1), answers
    findings = [finding for each in reports.values() for report in each for finding in report.findings]
    for log in replicas:
        findings += log_findings(log, reports.get(log.replica, []))
    return findings


def _together(one: Digest, other: Digest) -> Digest:
    if len(one.slot) > 8:
        return max(one, other, key=lambda digest: digest.offset)
    return Digest(one.slot, one.offset, one.parts + other.parts, one.high ^ other.high, one.low ^ other.low)


def _aborted(log: AuditedLog, files: DiskFiles) -> list[AbortedTransaction]:
    rows: list[AbortedTransaction] = []
    for segment in log.segments:
        row = log.row_of(segment)
        if row is not None and row.aborted:
            name = FileName(FileKind.TRANSACTION_INDEX, segment.base_offset, segment.generation)
            stored = unpack_rows(whole(files, name) or b"")
            assert stored is not None
            rows += stored.rows[: row.aborted]
    return rows
