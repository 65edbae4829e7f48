"""What executors do for an audit: segments in, findings and digests out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec
from pyspark.accumulators import Accumulator

from penstock.pipelines.core.audit_findings import Finding
from penstock.pipelines.core.audit_plan import Name
from penstock.pipelines.core.audit_segment import SegmentAudit, SegmentJob
from penstock.pipelines.core.audit_source import LogFiles
from penstock.pipelines.core.audited_log import AuditedLog

COLUMNS = (
    "topic string, partition int, replica string, replicas int, below long, "
    "slot binary, offset long, parts long, high long, low long, report binary"
)
Row = tuple[str, int, str, int, int, bytes | None, int | None, int | None, int | None, int | None, bytes | None]
"""One of COLUMNS: of a digest, or a report."""


class Loaded(NamedTuple):
    """What a source has, and what was found without reading a segment. `changed`: what was not the same for so long."""

    logs: list[AuditedLog]
    findings: list[Finding]
    changed: set[Name]


class Source(Protocol):
    """Where a replica's logs are. Pickled to executors."""

    # By a node that runs, so that they may change.
    @property
    def is_served(self) -> bool: ...

    @property
    def replica(self) -> str: ...

    def load(self, topics: frozenset[str] | None) -> Loaded: ...

    def files(self, topic: str, topic_id: UUID, partition: int, truncations: int) -> LogFiles: ...

    def close(self) -> None: ...


class SegmentTasks:
    """For mapPartitions, over jobs. `done_bytes`: for whoever shows how far it is."""

    def __init__(self, sources: Sequence[Source], done_bytes: Accumulator[int]) -> None:
        self._sources = sources
        self._done_bytes = done_bytes

    def run(self, jobs: Iterable[SegmentJob]) -> Iterator[Row]:
        try:
            for job in jobs:
                yield from self._rows(job)
        finally:
            for source in self._sources:
                source.close()

    def _rows(self, job: SegmentJob) -> Iterator[Row]:
        source = self._sources[job.source]
        audit = SegmentAudit(job, source.files(job.topic, job.topic_id, job.partition, job.truncations))
        replicas, below = (0, 0) if job.comparison is None else (job.comparison.replicas, job.comparison.limit)
        for digest in audit.digests():
            yield job.topic, job.partition, job.replica, replicas, below, *digest, None
        self._done_bytes.add(job.segment.size)
        report = msgspec.json.encode(audit.report)
        yield job.topic, job.partition, job.replica, replicas, below, None, None, None, None, None, report
