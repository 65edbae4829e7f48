"""The outcome of an audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from penstock.pipelines.core.audit_compare import Comparison
from penstock.pipelines.core.audit_findings import Fault, Finding, Severity, has_faults
from penstock.pipelines.core.audit_plan import Name, gone_offset
from penstock.pipelines.core.audit_segment import SegmentReport


class PartitionOutcome(msgspec.Struct):
    """Of all replicas of a partition, as they were when they were read the last time."""

    replicas: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    comparison: Comparison | None = None
    # A log was not any more what it had been when it was listed.
    has_changed: bool = False
    # Which replicas told nothing of some segment, and why.
    silent: dict[str, str] = msgspec.field(default_factory=dict)
    # Retention has taken all below it on some replica meanwhile.
    gone_offset: int = 0
    findings: list[Finding] = msgspec.field(default_factory=list)

    def add(self, report: SegmentReport) -> None:
        self.segments += 1
        self.batches += report.batches
        self.records += report.records
        self.size_bytes += report.size_bytes
        self.has_changed = self.has_changed or report.has_changed
        if report.silence:
            self.silent[report.replica] = report.silence
        self.gone_offset = max(self.gone_offset, gone_offset([report]))
        self.findings += report.findings

    @property
    def is_complete(self) -> bool:
        return not (self.has_changed or self.silent)

    @property
    def faults(self) -> set[tuple[Fault, str, str]]:
        """Of what is found, that by which it is known when it is found again."""
        return {known_by(each) for each in self.findings if each.fault.severity is not Severity.NOTE}


class AuditReport(NamedTuple):
    partitions: dict[Name, PartitionOutcome]
    # Of no partition.
    others: list[Finding]

    @property
    def findings(self) -> list[Finding]:
        """In the order in which they are shown."""
        found = [*self.others, *(each for outcome in self.partitions.values() for each in outcome.findings)]
        return sorted(found, key=lambda finding: finding.place)

    @property
    def has_faults(self) -> bool:
        return has_faults(self.findings)

    def summary(self) -> dict[str, int]:
        outcomes = self.partitions.values()
        compared = [each.comparison for each in outcomes if each.comparison is not None]
        return {
            "partitions": len(outcomes),
            "replicas": _sum(each.replicas for each in outcomes),
            "segments": _sum(each.segments for each in outcomes),
            "batches": _sum(each.batches for each in outcomes),
            "records": _sum(each.records for each in outcomes),
            "bytes": _sum(each.size_bytes for each in outcomes),
            "compared_partitions": len(compared),
            "compared_offsets": _sum(each.limit - each.start for each in compared),
        }


def known_by(finding: Finding) -> tuple[Fault, str, str]:
    return finding.fault, finding.replica, finding.file


def _sum(numbers: Iterable[int]) -> int:
    return sum(numbers)
