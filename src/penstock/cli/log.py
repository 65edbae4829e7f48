"""`penstock log`: look into segment files, without a node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.core.records import JsonLines, Record
from penstock.cli.failure import EXIT_REFUSED, EXIT_USAGE, fail, say
from penstock.cli.output import Output, OutputOption, show_rows
from penstock.cli.progress import Meter
from penstock.disk.interface import File
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError
from penstock.storage.core.damage import Damage
from penstock.storage.core.log_files import LOG_SUFFIX
from penstock.storage.core.replay import Replay
from penstock.storage.core.scan import ANY_OFFSET, next_valid_batch, valid_batches
from penstock.storage.journal_reader import JournalReader
from penstock.units import MIB
from penstock.wire.batch import BatchHeader
from penstock.wire.control import read_marker
from penstock.wire.records import records_of

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, help="Look into segment files, without a node."
)

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
# Far above what any client sends in one batch; a bomb ends there.
MAX_RECORDS_BYTES = 256 * MIB

PathArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A segment (.log), or a directory: of a partition, a topic, a node.")
]


@app.command(epilog="Example: penstock log dump data/topics/orders/partition-0 --records --count 10")
def dump(
    path: PathArgument,
    records: Annotated[bool, typer.Option("--records", help="The records inside, as JSON lines.")] = False,
    start: Annotated[int, typer.Option("--from", metavar="OFFSET", min=0, help="The first offset to show.")] = 0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="At most so many batches.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what segment files hold, batch by batch."""
    rows: list[dict[str, Any]] = []
    shown = 0
    journals = JournalReader(LocalDisk())
    for segment in _segments(path):
        with _Opened(segment) as file:
            end, expected_offset = 0, ANY_OFFSET
            for position, header in valid_batches(file, 0, file.size(), ANY_OFFSET, gap_at_end=True):
                end, expected_offset = position + header.size, header.next_offset
                if header.last_offset < start:
                    continue
                if count is not None and shown == count:
                    break
                shown += 1
                if records:
                    _print_records(segment, file.read(position, header.size), header)
                else:
                    rows.append(_row(segment, position, header) | _marker(file, position, header))
            for header in _journaled(segment, _replay_for(segment, journals), end, expected_offset):
                say(f"{segment}: from offset {header.base_offset} on see the journal: the next start puts it back")
                break
    if not records:
        columns = ["base_offset", "last_offset", "records", "position", "bytes", "compression", "producer_id", "epoch"]
        show_rows(output, rows, [*columns, "max_timestamp", "kind"])


@app.command(epilog="Example: penstock log verify /var/lib/penstock")
def verify(
    path: PathArgument,
    records: Annotated[bool, typer.Option("--records", help="Open every batch too. Slow.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check every batch of segment files against its checksum and its neighbours. Exit code 1 if any is damaged.

    An unfinished tail is no damage: the node cuts it off at its next start, or is just writing it. Nor is what a
    power cut took while the node's journal has it: the next start puts it back.
    """
    segments = _segments(path)
    journals = JournalReader(LocalDisk())
    reports = []
    with Meter("verified", total_bytes=sum(segment.stat().st_size for segment in segments)) as meter:
        for segment in segments:
            with _Opened(segment) as file:
                replay = _replay_for(segment, journals)
                reports.append(check_segment(segment, file, meter, replay, open_batches=records))
    show_rows(output, [report.row() for report in reports], ["segment", "batches", "records", "bytes", "state"])
    for report in reports:
        for text in report.problems():
            say(f"{report.path}: {text}")
    damaged = sum(bool(report.damage or report.unreadable) for report in reports)
    if damaged:
        fail(f"{damaged} of {len(reports)} segments are damaged", do="replace the disk; the rest stays readable")


@dataclass
class SegmentReport:
    path: str
    batches: int = 0
    records: int = 0
    bytes: int = 0
    unfinished_bytes: int = 0
    # Missing or damaged here, but whole in the node's journal.
    journaled_bytes: int = 0
    damage: list[Damage] = field(default_factory=list)
    # Batches whose checksum is right, but whose records cannot be read.
    unreadable: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        states = {
            "damaged": self.damage or self.unreadable,
            "unfinished tail": self.unfinished_bytes,
            "partly in the journal": self.journaled_bytes,
        }
        state = next((name for name, holds in states.items() if holds), "ok")
        return {
            "segment": self.path,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "state": state,
            "unfinished_bytes": self.unfinished_bytes,
            "journaled_bytes": self.journaled_bytes,
            "damage": [damage._asdict() for damage in self.damage],
            "unreadable": self.unreadable,
        }

    def problems(self) -> Iterator[str]:
        for damage in self.damage:
            yield f"bytes {damage.position} to {damage.end_position} are no valid batches: {damage.error()}"
        yield from self.unreadable
        if self.journaled_bytes:
            yield f"{self.journaled_bytes} bytes are whole in the journal alone: the next start puts them back"
        if self.unfinished_bytes:
            yield f"the last {self.unfinished_bytes} bytes are an unfinished batch"


def check_segment(path: Path, file: File, meter: Meter, replay: Replay, *, open_batches: bool) -> SegmentReport:
    report = SegmentReport(str(path), bytes=file.size())
    position, expected_offset = 0, ANY_OFFSET
    while True:
        for start, header in valid_batches(file, position, report.bytes, expected_offset, gap_at_end=True):
            report.batches += 1
            report.records += header.record_count
            position, expected_offset = start + header.size, header.next_offset
            meter.add(header.record_count, header.size)
            if open_batches:
                report.unreadable += _unreadable(file.read(start, header.size), header)
        run = list(_journaled(path, replay, position, expected_offset))
        if run:
            put_back = sum(header.size for header in run)
            report.journaled_bytes += put_back
            position, expected_offset = position + put_back, run[-1].next_offset
            continue
        if position >= report.bytes:
            break
        sound = next_valid_batch(file, position + 1, report.bytes, max(0, expected_offset))
        if sound is None:
            report.unfinished_bytes = report.bytes - position
            break
        first_offset = max(0, expected_offset)
        report.damage.append(Damage(first_offset, sound[1].base_offset, position, sound[0]))
        position, expected_offset = sound[0], ANY_OFFSET
    return report


def _unreadable(batch: bytes, header: BatchHeader) -> list[str]:
    try:
        for _ in records_of(batch, limit_bytes=MAX_RECORDS_BYTES):
            pass
    except PenstockError as error:
        return [f"the batch at offset {header.base_offset} cannot be read: {error}"]
    return []


def _replay_for(segment: Path, journals: JournalReader) -> Replay:
    try:
        return journals.replay_for(str(segment.resolve().parent))
    except (OSError, PenstockError) as error:
        say(f"{segment}: whether the journal has more of it is not known: {error}")
        return Replay()


def _journaled(segment: Path, replay: Replay, position: int, expected_offset: int) -> Iterator[BatchHeader]:
    """What the journal has from there on."""
    base_offset, _, generation = segment.stem.partition("-")
    if base_offset.isdecimal():
        expected = int(base_offset) if expected_offset == ANY_OFFSET else expected_offset
        for header, _ in replay.run_from(int(base_offset), int(generation or 0), position, expected):
            yield header


class _Opened:
    """A segment's file, through the same seam as the node's."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = LocalDisk().open(str(path))
        except OSError as error:
            fail(f"cannot read {path}: {error.strerror}")

    def __enter__(self) -> File:
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _segments(path: Path) -> list[Path]:
    if not path.exists():
        fail(f"there is no {path}", code=EXIT_USAGE)
    found = [path] if path.is_file() else sorted(path.rglob(f"*{LOG_SUFFIX}"))
    if not found:
        fail(
            f"there are no segments in {path}", do="give a .log file, or the directory of a partition", code=EXIT_USAGE
        )
    return found


def _marker(file: File, position: int, header: BatchHeader) -> dict[str, Any]:
    """What a control batch says, in the place of what it would be without that."""
    marker = read_marker(file.read(position, header.size)) if header.is_control else None
    if marker is None:
        return {}
    outcome = "commit" if marker.is_commit else "abort"
    return {"kind": f"{outcome} marker", "coordinator_epoch": marker.coordinator_epoch}


def _row(segment: Path, position: int, header: BatchHeader) -> dict[str, Any]:
    kinds = [
        name for name, holds in (("control", header.is_control), ("transactional", header.is_transactional)) if holds
    ]
    return {
        "segment": str(segment),
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "position": position,
        "bytes": header.size,
        "compression": COMPRESSIONS[header.compression] if header.compression < len(COMPRESSIONS) else "unknown",
        "producer_id": header.producer_id if header.has_producer else None,
        "producer_epoch": header.producer_epoch if header.has_producer else None,
        "base_sequence": header.base_sequence if header.has_producer else None,
        "epoch": header.leader_epoch,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "kind": ", ".join(kinds) or "data",
        "coordinator_epoch": None,
    }


def _print_records(segment: Path, batch: bytes, header: BatchHeader) -> None:
    if header.is_control:
        # Not what a producer wrote: the dump without --records tells of it.
        return
    try:
        for record in records_of(batch, limit_bytes=MAX_RECORDS_BYTES):
            headers = tuple((each.key.decode(errors="replace"), each.value) for each in record.headers)
            shown = Record(
                value=record.value,
                key=record.key,
                headers=headers,
                timestamp_ms=record.timestamp_ms,
                offset=record.offset,
            )
            sys.stdout.buffer.write(JsonLines().write(shown) + b"\n")
    except PenstockError as error:
        fail(f"{segment}: the batch at offset {header.base_offset} cannot be read: {error}", code=EXIT_REFUSED)
