"""The check of one segment: its batches, what its indexes and the checkpoint say of them, and its digests."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import msgspec

from penstock.pipelines.core.audit_compare import AbortedRecords, Comparison
from penstock.pipelines.core.audit_digests import Digest, KeyDigests, WindowDigests
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_indexes import NO_TIMESTAMP, SpanningAbort, SparseIndexCheck, TransactionIndexCheck
from penstock.pipelines.core.audit_source import (
    BufferedFile,
    FileMissing,
    FileUnreadable,
    LogChanged,
    LogFiles,
    NobodyAnswers,
    OpenFile,
    SegmentGone,
    shown,
    whole,
)
from penstock.pipelines.core.audited_log import UNKNOWN
from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.core.checkpoint import ProducerSnapshot, SegmentRow
from penstock.storage.core.leader_epochs import EpochStart, LeaderEpochs
from penstock.storage.core.scan import ANY_OFFSET, next_valid_batch, valid_batches
from penstock.storage.core.sealed import unseal
from penstock.wire.audit_messages import MAX_READ_BYTES, FileKind, FileName, ListedSegment
from penstock.wire.batch import BatchHeader
from penstock.wire.control import read_marker

_NO_EPOCH = -1


class SegmentJob(msgspec.Struct, frozen=True):
    """All that is known of a segment before it is read. `source`: which replica has it, among those of the audit."""

    source: int
    replica: str
    topic: str
    topic_id: UUID
    partition: int
    truncations: int
    segment: ListedSegment
    is_served: bool
    # Behind it nothing is, so what a crash left at its end is no damage.
    is_last: bool
    may_have_gaps: bool
    start_offset: int
    # Of the checkpoint: of this segment, and the epochs of all below its recovery point.
    row: SegmentRow | None
    epochs: tuple[EpochStart, ...]
    vouched_offset: int
    comparison: Comparison | None
    aborted: tuple[AbortedTransaction, ...] = ()


class SegmentReport(msgspec.Struct):
    """Of one job. `damage`: offsets of which nothing is known, each with the one behind them."""

    topic: str
    partition: int
    replica: str
    base_offset: int
    next_offset: int
    first_epoch: int = _NO_EPOCH
    last_epoch: int = _NO_EPOCH
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    # The log is another than the one that was listed.
    has_changed: bool = False
    # Retention took the segment before all of it was read.
    is_gone: bool = False
    # Why nobody has told what is in it.
    silence: str = ""
    # Of transactions: what is open at its end, who has ended one in it, and what was aborted that began before it.
    open: dict[int, int] = msgspec.field(default_factory=dict)
    ended: list[int] = msgspec.field(default_factory=list)
    spanning: list[SpanningAbort] = msgspec.field(default_factory=list)
    damage: list[tuple[int, int]] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not (self.has_changed or self.is_gone or self.silence)


class SegmentAudit:
    """`digests` does the work; when it is through, `report` is complete."""

    def __init__(self, job: SegmentJob, files: LogFiles) -> None:
        self._job = job
        self._files = files
        segment = job.segment
        self._name = FileName(FileKind.LOG, segment.base_offset, segment.generation)
        self.report = SegmentReport(job.topic, job.partition, job.replica, segment.base_offset, segment.base_offset)
        self._newest_ms = NO_TIMESTAMP
        self._epochs = LeaderEpochs(job.epochs)
        self._epoch = _NO_EPOCH
        # Up to where the checkpoint says that this is the epoch.
        self._epoch_until = -1
        self._lied_about_epochs = False
        self._saw_row_end = job.row is None or job.row.size == 0
        self._sparse: dict[FileKind, SparseIndexCheck] = {}
        self._transactions: TransactionIndexCheck | None = None
        comparison = job.comparison
        self._digests: WindowDigests | KeyDigests | None = None
        if comparison is not None:
            by_key = comparison.by_key
            self._digests = KeyDigests(comparison, AbortedRecords(job.aborted)) if by_key else WindowDigests(comparison)

    def digests(self) -> Iterator[Digest]:
        report = self.report
        try:
            yield from self._read()
        except FileMissing:
            self._is_missing()
        except FileUnreadable as error:
            self._is_unreadable(str(error))
        except LogChanged:
            report.has_changed = True
        except SegmentGone:
            report.is_gone = True
        except NobodyAnswers as error:
            report.silence = str(error)
        if not report.is_complete:
            # What was seen of it may be of two different logs, and the rest is not known.
            report.findings, report.damage = [], []
            report.next_offset = max(report.next_offset, self._job.segment.next_offset)

    def _read(self) -> Iterator[Digest]:
        file = self._files.open(self._name)
        self._open_indexes()
        yield from self._walk(file)
        self._close_indexes()
        if self._digests is not None:
            yield from self._digests.rest()

    # Batches

    def _walk(self, opened: OpenFile) -> Iterator[Digest]:
        job, report = self._job, self.report
        size = min(job.segment.size, opened.size)
        is_short = opened.size < self._full_size()
        file = BufferedFile(opened, size, MAX_READ_BYTES)
        position, expected = 0, job.segment.base_offset
        while True:
            found = valid_batches(file, position, size, expected, chunk_bytes=MAX_READ_BYTES, gap_at_end=True)
            for at, header in found:
                if header.base_offset != expected and expected != ANY_OFFSET and not job.may_have_gaps:
                    text = "no batch has them, and the log is not compacted"
                    self._lost(Fault.MISSING_OFFSETS, text, expected, header.base_offset)
                yield from self._batch(at, header, file.read(at, header.size))
                position, expected = at + header.size, header.next_offset
            if position >= size:
                break
            sound = next_valid_batch(file, position + 1, size, max(0, expected), chunk_bytes=MAX_READ_BYTES)
            if sound is None and is_short:
                break
            if sound is None:
                self._bad_tail(position, size, max(report.next_offset, expected))
                break
            first_offset = max(report.next_offset, expected)
            text = f"bytes {position} to {sound[0]} are no valid batches"
            self._lost(Fault.DAMAGED_RECORDS, text, first_offset, max(first_offset + 1, sound[1].base_offset))
            self._skip_to(sound[0])
            position, expected = sound[0], ANY_OFFSET
        if is_short:
            self._is_short(opened.size)
        else:
            self._compare_end(size)

    def _batch(self, position: int, header: BatchHeader, batch: bytes) -> Iterator[Digest]:
        report, end = self.report, position + header.size
        for check in self._sparse.values():
            check.batch(position, header, self._newest_ms)
        if header.max_timestamp > self._newest_ms:
            self._newest_ms = header.max_timestamp
        if header.is_transactional and self._transactions is not None:
            marker = read_marker(batch) if header.is_control else None
            if marker is not None:
                self._transactions.marker(header, marker)
            elif not header.is_control:
                self._transactions.batch(header)
        if header.leader_epoch != self._epoch or header.base_offset >= self._epoch_until:
            self._compare_epoch(header)
        if report.batches == 0:
            report.first_epoch = header.leader_epoch
        report.last_epoch = header.leader_epoch
        report.batches += 1
        report.records += header.record_count
        report.size_bytes += header.size
        report.next_offset = header.next_offset
        if self._job.row is not None and end == self._job.row.size:
            self._compare_row(self._job.row)
        if self._digests is not None:
            yield from self._digests.add(batch, header)

    def _bad_tail(self, position: int, size: int, first_offset: int) -> None:
        job = self._job
        vouched = max(job.vouched_offset, 0 if job.row is None else job.row.next_offset)
        if job.is_last and not job.is_served and first_offset >= vouched:
            self._find(Fault.UNFINISHED, f"the last {size - position} bytes are no whole batch", first_offset)
            return
        known_end = job.segment.next_offset if job.segment.next_offset != UNKNOWN else vouched
        text = f"bytes {position} to {size} are no valid batches, and none is behind them"
        self._lost(Fault.DAMAGED_RECORDS, text, first_offset, max(first_offset + 1, known_end))
        self._skip_to(size)

    def _compare_end(self, size: int) -> None:
        report, known_end = self.report, self._job.segment.next_offset
        if report.damage:
            report.next_offset = max(report.next_offset, known_end)
            return
        for check in self._sparse.values():
            check.end(size, report.next_offset)
        if not self._saw_row_end:
            text = f"no batch ends at byte {self._job.row.size if self._job.row else 0}, where it says that one does"
            self._find(Fault.WRONG_CHECKPOINT, text, file=shown(FileName(FileKind.CHECKPOINT)))
        if known_end not in (UNKNOWN, report.next_offset):
            text = f"its last batch ends before offset {report.next_offset}, the log says {known_end}"
            self._lost(Fault.MISSING_OFFSETS, text, *sorted((report.next_offset, known_end)))

    # What the checkpoint says

    def _compare_row(self, row: SegmentRow) -> None:
        self._saw_row_end = True
        report = self.report
        checkpoint = shown(FileName(FileKind.CHECKPOINT))
        if report.next_offset != row.next_offset and not row.damage and not report.damage:
            text = f"of segment {row.base_offset} it says that byte {row.size} is before offset {row.next_offset}, but"
            self._find(Fault.WRONG_CHECKPOINT, f"{text} it is before {report.next_offset}", file=checkpoint)
        if self._newest_ms != row.max_timestamp_ms and not row.damage and not report.damage:
            text = f"of segment {row.base_offset} it says that its newest record is of {row.max_timestamp_ms}, but"
            self._find(Fault.WRONG_CHECKPOINT, f"{text} it is of {self._newest_ms}", file=checkpoint)

    def _compare_epoch(self, header: BatchHeader) -> None:
        self._epoch = header.leader_epoch
        self._epoch_until = header.base_offset + 1
        if header.base_offset < self._job.start_offset or header.next_offset > self._job.vouched_offset:
            return
        said = self._epochs.epoch_of(header.base_offset)
        if said != header.leader_epoch:
            if not self._lied_about_epochs:
                text = (
                    f"offset {header.base_offset} is of leader epoch {header.leader_epoch}, the checkpoint says {said}"
                )
                self._find(Fault.LEADER_EPOCHS, text, header.base_offset, header.next_offset)
            self._lied_about_epochs = True
            return
        end = self._epochs.end_offset_of(said, self._job.vouched_offset).end_offset
        self._epoch_until = max(self._epoch_until, end)

    # Indexes and what else belongs to the segment

    def _open_indexes(self) -> None:
        job, row = self._job, self._job.row
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            data = whole(self._files, self._beside(kind))
            if data is None:
                if row is not None and row.size and row.size == job.segment.size and not job.is_last:
                    self._find(Fault.NO_INDEX, "the segment is closed and has none", file=shown(self._beside(kind)))
                continue
            of_times = kind is FileKind.TIME_INDEX
            self._sparse[kind] = SparseIndexCheck(data, job.segment.base_offset, of_times=of_times)
        if row is not None:
            name = self._beside(FileKind.TRANSACTION_INDEX)
            data = whole(self._files, name) if row.aborted else b""
            if data is None:
                text = f"it should know of {row.aborted} aborted transactions, and is not there"
                self._find(Fault.WRONG_TRANSACTION_INDEX, text, file=shown(name))
            else:
                self._transactions = TransactionIndexCheck(
                    data, job.segment.base_offset, row.aborted, row.next_offset, may_have_gaps=job.may_have_gaps
                )
        snapshot = whole(self._files, self._beside(FileKind.SNAPSHOT))
        # An empty one says nothing, and is as good as none.
        if snapshot and unseal(snapshot, ProducerSnapshot) is None:
            text = "what it knew of producers cannot be read"
            self._find(Fault.DAMAGED_SNAPSHOT, text, file=shown(self._beside(FileKind.SNAPSHOT)))

    def _close_indexes(self) -> None:
        faults = {FileKind.OFFSET_INDEX: Fault.WRONG_OFFSET_INDEX, FileKind.TIME_INDEX: Fault.WRONG_TIME_INDEX}
        for kind, check in self._sparse.items():
            name = shown(self._beside(kind))
            if check.is_damaged:
                self._find(Fault.DAMAGED_INDEX, "what it says cannot be read", file=name)
            if check.lies:
                first, text = check.lies[0]
                more = f", and {len(check.lies) - 1} more like that" if len(check.lies) > 1 else ""
                self._find(faults[kind], text + more, first, file=name)
        if self._transactions is not None and not self.report.damage:
            name = shown(self._beside(FileKind.TRANSACTION_INDEX))
            if self._transactions.is_damaged:
                self._find(Fault.DAMAGED_INDEX, "what it says cannot be read", file=name)
                return
            for first, text in self._transactions.lies()[:1]:
                self._find(Fault.WRONG_TRANSACTION_INDEX, text, first, file=name)
            self.report.open = self._transactions.open
            self.report.ended = sorted(self._transactions.ended)
            self.report.spanning = self._transactions.spanning

    def _skip_to(self, position: int) -> None:
        for check in self._sparse.values():
            check.skip_to(position)
            check.distrust()

    def _beside(self, kind: FileKind) -> FileName:
        return FileName(kind, self._name.base_offset, self._name.generation)

    # Findings

    def _is_missing(self) -> None:
        segment = self._job.segment
        self.report.next_offset = max(segment.base_offset, segment.next_offset)
        if segment.size:
            self._lost(Fault.MISSING_SEGMENT, "it is not there", segment.base_offset, self.report.next_offset)

    def _lost(self, fault: Fault, text: str, first_offset: int, next_offset: int) -> None:
        self.report.damage.append((first_offset, next_offset))
        self._find(fault, text, first_offset, next_offset)

    def _is_unreadable(self, text: str) -> None:
        report = self.report
        known_end = max(report.next_offset + 1, self._job.segment.next_offset)
        self._lost(Fault.UNREADABLE_FILE, text, report.next_offset, known_end)
        report.next_offset = max(report.next_offset, self._job.segment.next_offset)

    def _full_size(self) -> int:
        return max(self._job.segment.size, 0 if self._job.row is None else self._job.row.size)

    def _is_short(self, size: int) -> None:
        row, report = self._job.row, self.report
        known_end = max(self._job.segment.next_offset, UNKNOWN if row is None else row.next_offset)
        text = f"it has {size} bytes, {self._full_size()} are in the log"
        self._lost(Fault.SHORT_SEGMENT, text, report.next_offset, max(report.next_offset + 1, known_end))
        report.next_offset = max(report.next_offset, known_end)

    def _find(
        self, fault: Fault, text: str, first_offset: int = -1, next_offset: int = -1, *, file: str | None = None
    ) -> None:
        job = self._job
        self.report.findings.append(
            Finding(
                topic=job.topic,
                partition=job.partition,
                replica=job.replica,
                fault=fault,
                text=text,
                file=shown(self._name) if file is None else file,
                first_offset=first_offset,
                next_offset=next_offset,
            )
        )
