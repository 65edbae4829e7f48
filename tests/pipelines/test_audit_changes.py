"""Logs that change between the moment in which they are listed and the one in which they are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipelines.audited import SETTINGS, filled, opened, partition_of
from tests.pipelines.disk_audit import DiskFile, DiskFiles, as_served
from tests.storage.batches import NOW_MS, append, batch_of

from penstock.disk.local import LocalDisk
from penstock.pipelines.core.audit_findings import Fault
from penstock.pipelines.core.audit_plan import absent_brokers, absent_logs, gone_offset, jobs_of, log_findings
from penstock.pipelines.core.audit_segment import SegmentAudit, SegmentReport
from penstock.pipelines.core.audit_source import LogChanged, NobodyAnswers, SegmentGone
from penstock.pipelines.core.audited_log import AuditedLog
from penstock.storage.log import Log
from penstock.wire.audit_messages import FileKind, FileName

Refusal = type[LogChanged] | type[NobodyAnswers] | type[SegmentGone]


class ChangingFiles:
    """`refusal`: what is answered for these segments, `after` so many bytes of them."""

    def __init__(self, directory: Path, refusal: Refusal, base_offsets: set[int], after: int = 0) -> None:
        self._files = DiskFiles(LocalDisk(), str(directory))
        self._refusal = refusal
        self._base_offsets = base_offsets
        self._after = after

    def open(self, file: FileName) -> DiskFile:
        if file.kind is FileKind.LOG and file.base_offset in self._base_offsets:
            if not self._after:
                raise self._refusal("it is so")
            return BreakingFile(self._files.open(file), self._refusal, self._after)
        return self._files.open(file)


class BreakingFile(DiskFile):
    def __init__(self, file: DiskFile, refusal: Refusal, after: int) -> None:
        self._opened = file
        self._refusal = refusal
        self._left = after
        self.size = file.size

    def read(self, position: int, length: int, /) -> bytes:
        if position + length > self._left:
            raise self._refusal("it is so")
        return self._opened.read(position, length)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    filled(tmp_path)
    return opened(tmp_path)


def reports_of(listed: AuditedLog, files: ChangingFiles) -> list[SegmentReport]:
    reports = []
    for job in jobs_of([listed], {listed.replica: 0}, {}, lambda log: []):
        audit = SegmentAudit(job, files)
        assert list(audit.digests()) == []
        reports.append(audit.report)
    return reports


@pytest.mark.parametrize("after", [0, 500])
def test_what_retention_takes_is_not_missed(log: Log, tmp_path: Path, after: int) -> None:
    """Also if what was before it had been read already."""
    listed = as_served(log, "here")
    second = listed.segments[1]
    reports = reports_of(listed, ChangingFiles(partition_of(tmp_path), SegmentGone, {second.base_offset}, after))
    assert gone_offset(reports) == second.next_offset
    assert [finding for report in reports for finding in report.findings] == []
    assert log_findings(listed, reports) == []


def test_all_segments_may_be_taken(log: Log, tmp_path: Path) -> None:
    listed = as_served(log, "here")
    everything = {segment.base_offset for segment in listed.segments}
    reports = reports_of(listed, ChangingFiles(partition_of(tmp_path), SegmentGone, everything))
    assert log_findings(listed, reports) == []


@pytest.mark.parametrize("refusal", [LogChanged, NobodyAnswers])
@pytest.mark.parametrize("after", [0, 500])
def test_of_a_log_that_was_not_read_nothing_is_said(log: Log, tmp_path: Path, refusal: Refusal, after: int) -> None:
    listed = as_served(log, "here")
    third = {listed.segments[2].base_offset}
    reports = reports_of(listed, ChangingFiles(partition_of(tmp_path), refusal, third, after))
    assert [report.base_offset for report in reports if not report.is_complete] == list(third)
    assert [finding for report in reports for finding in report.findings] == []
    assert log_findings(listed, reports) == []


def test_a_start_that_moves_before_the_checkpoint_is_read(log: Log, tmp_path: Path) -> None:
    """Of epochs below it the checkpoint says nothing more."""

    def moved() -> None:
        log.delete_records(log.segments[1].base_offset + 3)
        append(log, batch_of(b"later"), leader_epoch=3)
        log.checkpoint()

    listed = as_served(log, "here", before_checkpoint=moved)
    reports = reports_of(listed, ChangingFiles(partition_of(tmp_path), LogChanged, set()))
    assert [finding for report in reports for finding in report.findings] == []
    assert log_findings(listed, reports) == []


def test_a_node_that_has_lost_its_last_segment_and_goes_on_behind_it(log: Log, tmp_path: Path) -> None:
    log.close()
    last = sorted(partition_of(tmp_path).glob("*.log"))[-1]
    end_offset = log.end_offset
    last.unlink()
    again = opened(tmp_path)
    assert again.end_offset == end_offset
    listed = as_served(again, "here")
    reports = reports_of(listed, ChangingFiles(partition_of(tmp_path), LogChanged, set()))
    (finding,) = log_findings(listed, reports)
    assert (finding.fault, finding.first_offset) == (Fault.MISSING_OFFSETS, int(last.stem))
    assert finding.next_offset == end_offset


def test_who_should_have_a_replica_and_does_not_tell_of_it() -> None:
    expected = {("orders", 0): ("1", "2", "3"), ("orders", 1): ("3", "4", "1")}
    there = {(("orders", 0), "1"), (("orders", 1), "1")}
    missing = list(absent_logs(expected, there, {"1", "2"}))
    assert [(each.fault, each.partition, each.replica) for each in missing] == [(Fault.NOT_AUDITED, 0, "2")]
    gone = list(absent_brokers(expected, {"1", "2", "3"}))
    assert [(each.fault, each.topic, each.replica) for each in gone] == [(Fault.NOT_AUDITED, "", "4")]
    assert "1 partitions" in gone[0].text


def test_retention_while_files_are_served(log: Log, tmp_path: Path) -> None:
    """The files of what was deleted go after a while, and the log starts later."""
    listed = as_served(log, "here")
    log.delete_records(listed.segments[2].base_offset)
    _delete(log)
    gone = {segment.base_offset for segment in listed.segments[:2]}
    assert not any((partition_of(tmp_path) / f"{base_offset:020d}.log").exists() for base_offset in gone)
    reports = reports_of(listed, ChangingFiles(partition_of(tmp_path), SegmentGone, gone))
    assert log_findings(listed, reports) == []
    assert sum(report.is_gone for report in reports) == 2


def _delete(log: Log) -> None:
    for now_ms in (NOW_MS, NOW_MS + SETTINGS.file_delete_delay_ms):
        deletion = log.apply_retention(now_ms)
        if deletion is not None:
            deletion.run()
