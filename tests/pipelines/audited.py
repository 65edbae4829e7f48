"""Data directories to audit, and audits of them without Spark: segment by segment, and no replicas compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from tests.storage.batches import NOW_MS, append, batch_of

from penstock.config.log import LogSettings
from penstock.disk.local import LocalDisk
from penstock.pipelines.audit_directory import DirectorySource
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_plan import jobs_of, log_findings, untold
from penstock.pipelines.core.audit_segment import SegmentAudit, SegmentReport
from penstock.storage.directories import PartitionDirectories
from penstock.storage.log import Log
from penstock.wire.control import Marker, build_marker
from penstock.wire.records import Record, build_batch

TOPIC_ID = UUID(int=7)
SETTINGS = LogSettings(segment_bytes=2048, min_cleanable_dirty_ratio=0.0, index_interval_bytes=256, flush_policy="os")
PRODUCER = 5


def partition_of(data_dir: Path) -> Path:
    return data_dir / "topics" / "orders" / "partition-0"


def opened(data_dir: Path, settings: LogSettings = SETTINGS) -> Log:
    directories = PartitionDirectories(LocalDisk(), str(data_dir))
    (path,) = directories.claim("orders", TOPIC_ID, [0])
    return Log.open(LocalDisk(), path, settings, now_ms=NOW_MS)


def filled(
    data_dir: Path, batches: int = 60, *, segment_bytes: int = 2048, leave: Callable[[Log], object] = Log.close
) -> None:
    """Several segments of two leader epochs, with transactions of which every second was aborted."""
    log = opened(data_dir, replace(SETTINGS, segment_bytes=segment_bytes))
    for number in range(batches):
        epoch = 0 if number < batches // 2 else 3
        append(log, batch_of(b"%d" % number * 40, b"second", timestamp_ms=NOW_MS + number), leader_epoch=epoch)
        if number % 5 == 4:
            transaction(log, number // 5, epoch)
    leave(log)


def transaction(log: Log, number: int, epoch: int) -> None:
    records = [Record(place, NOW_MS, b"key", b"in a transaction") for place in range(2)]
    batch = build_batch(
        records, producer_id=PRODUCER, producer_epoch=0, base_sequence=2 * number, is_transactional=True
    )
    append(log, memoryview(batch), leader_epoch=epoch)
    marker = build_marker(PRODUCER, 0, Marker(is_commit=bool(number % 2), coordinator_epoch=1), NOW_MS)
    append(log, memoryview(marker), leader_epoch=epoch)


def audited(data_dir: Path) -> list[Finding]:
    """Everything that is told of one directory, as the pipeline would."""
    source = DirectorySource(str(data_dir))
    loaded = source.load(None)
    reports: dict[tuple[str, int], list[SegmentReport]] = {}
    for job in jobs_of(loaded.logs, {source.replica: 0}, {}, lambda log: []):
        audit = SegmentAudit(job, source.files(job.topic, job.topic_id, job.partition, job.truncations))
        assert list(audit.digests()) == []
        assert not audit.report.has_changed
        reports.setdefault((job.topic, job.partition), []).append(audit.report)
    found = list(loaded.findings)
    for log in loaded.logs:
        own = reports.get(log.name, [])
        found += [finding for report in own for finding in report.findings]
        found += untold(log_findings(log, own), found)
    return found


def faults(data_dir: Path) -> set[Fault]:
    return {finding.fault for finding in audited(data_dir)}
