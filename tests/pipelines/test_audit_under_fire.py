"""No false alarm: whatever a log goes through, an audit of it finds no error, and copies of it are equal to it."""

from __future__ import annotations

from hypothesis.stateful import precondition, rule
from tests.pipelines.disk_audit import DiskFiles, as_served, as_stopped, audited
from tests.scale import examples
from tests.storage.fire import under_fire
from tests.storage.test_transactions_under_fire import COPY, TransactionsUnderFire
from tests.storage.transactional_log import DIRECTORY

from penstock.pipelines.core.audit_findings import Finding, Severity


class AuditedUnderFire(TransactionsUnderFire):
    @property
    def is_whole(self) -> bool:
        return not self.log.holes.ranges and not any(segment.damage for segment in self.log.segments)

    def errors_in(self, findings: list[Finding]) -> list[Finding]:
        """A power cut may take what was never synced because it can be made again."""
        return [finding for finding in findings if finding.fault.severity is Severity.ERROR]

    @precondition(lambda self: self.is_whole)
    @rule()
    def audit_running(self) -> None:
        assert not self.errors_in(audited([(as_served(self.log, "here"), DiskFiles(self.disk, DIRECTORY))]))

    @precondition(lambda self: self.is_whole)
    @rule()
    def audit_killed(self) -> None:
        assert not self.errors_in(
            audited([(as_stopped(self.disk, DIRECTORY, "here"), DiskFiles(self.disk, DIRECTORY))])
        )

    @precondition(lambda self: self.is_whole)
    @rule()
    def audit_copies(self) -> None:
        self.copy(500)
        self.sync(True)
        here = as_served(self.log, "here"), DiskFiles(self.disk, DIRECTORY)
        there = as_stopped(self.disk, COPY, "there"), DiskFiles(self.disk, COPY)
        assert not self.errors_in(audited([here, there]))


AuditedUnderFire.TestCase.settings = under_fire(max_examples=examples(25), steps=30)
TestAuditedUnderFire = AuditedUnderFire.TestCase
