"""`penstock log` on segment files as a node leaves them, sound and not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.main import app
from penstock.config.log import LogSettings
from penstock.disk.local import LocalDisk
from penstock.storage.directories import PartitionDirectories
from penstock.storage.journal import Journal, JournalTicket
from penstock.storage.log import Log
from penstock.wire.batch import read_header, stamp
from penstock.wire.control import Marker, build_marker
from penstock.wire.records import Record, RecordHeader, build_batch


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["log", *arguments])


def rows(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*arguments, "--output", "json").stdout)
    return found


def batch(base_offset: int, count: int = 2, compression: int = 0) -> bytes:
    records = [
        Record(base_offset + number, 1000 + number, b"key", f"value-{base_offset + number}".encode() * 10,
               (RecordHeader(b"h", b"x"),))
        for number in range(count)
    ]  # fmt: skip
    return bytes(build_batch(records, base_offset=base_offset, compression=compression))


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    directory = tmp_path / "topics" / "orders" / "partition-0"
    directory.mkdir(parents=True)
    path = directory / f"{0:020d}.log"
    path.write_bytes(batch(0) + batch(2, compression=1) + batch(4, count=1))
    return path


def test_dump_shows_every_batch(segment: Path) -> None:
    found = rows("dump", str(segment))
    assert [(row["base_offset"], row["last_offset"], row["records"], row["compression"]) for row in found] == [
        (0, 1, 2, "none"),
        (2, 3, 2, "gzip"),
        (4, 4, 1, "none"),
    ]
    assert found[1]["position"] == found[0]["bytes"]
    assert "BASE OFFSET" in run("dump", str(segment.parent)).stdout


def test_dump_shows_how_transactions_end(segment: Path) -> None:
    aborted, committed = (build_marker(7, 1, Marker(is_commit, 3), 1000) for is_commit in (False, True))
    for place, marker in enumerate((aborted, committed)):
        stamp(marker, 5 + place, 0)
    segment.write_bytes(segment.read_bytes() + aborted + committed)
    found = rows("dump", str(segment), "--from", "4")
    assert [(row["kind"], row["producer_id"], row["coordinator_epoch"]) for row in found] == [
        ("data", None, None),
        ("abort marker", 7, 3),
        ("commit marker", 7, 3),
    ]
    assert "commit marker" in run("dump", str(segment)).stdout
    assert len(run("dump", str(segment), "--records", "--from", "4").stdout.splitlines()) == 1


def test_dump_shows_the_records_too(segment: Path) -> None:
    lines = run("dump", str(segment.parent.parent.parent), "--records", "--from", "2", "--count", "1").stdout
    records = [json.loads(line) for line in lines.splitlines()]
    assert [(record["offset"], record["key"], record["headers"]) for record in records] == [
        (2, "key", [["h", "x"]]),
        (3, "key", [["h", "x"]]),
    ]


def test_a_sound_log_is_verified(segment: Path) -> None:
    result = run("verify", str(segment.parent.parent.parent), "--records", "--output", "json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert (row["state"], row["batches"], row["records"], row["bytes"]) == ("ok", 3, 5, segment.stat().st_size)


def test_a_flipped_bit_is_found_and_what_follows_is_still_read(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    first = len(batch(0))
    content[first + 100] ^= 1
    segment.write_bytes(content)
    result = run("verify", str(segment), "--output", "json")
    assert result.exit_code == 1
    assert "1 of 1 segments are damaged" in result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["state"], row["batches"]) == ("damaged", 2)
    assert row["damage"] == [
        {"first_offset": 2, "next_offset": 4, "position": first, "end_position": len(content) - len(batch(4, count=1))}
    ]


def test_damage_at_the_very_beginning(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[20] ^= 1
    segment.write_bytes(content)
    (row,) = rows("verify", str(segment))
    assert (row["state"], row["batches"], row["damage"][0]["position"]) == ("damaged", 2, 0)


def test_an_unfinished_tail_is_told_but_no_damage(segment: Path) -> None:
    content = segment.read_bytes()
    segment.write_bytes(content[:-5])
    result = run("verify", str(segment), "--output", "json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert (row["state"], row["unfinished_bytes"]) == ("unfinished tail", len(batch(4, count=1)) - 5)
    assert "unfinished batch" in result.stderr


def test_an_empty_segment_is_fine(segment: Path) -> None:
    segment.write_bytes(b"")
    assert [row["state"] for row in rows("verify", str(segment))] == ["ok"]


def test_a_wrong_path_is_told(tmp_path: Path) -> None:
    missing = run("verify", str(tmp_path / "none"))
    assert (missing.exit_code, "there is no" in missing.stderr) == (2, True)
    empty = run("dump", str(tmp_path))
    assert (empty.exit_code, "there are no segments" in empty.stderr) == (2, True)


@pytest.fixture
def journaled(tmp_path: Path) -> Path:
    """A segment of which a power cut took the last batch and the middle; the journal has both."""
    disk, topic_id = LocalDisk(), UUID(int=1)
    (directory,) = PartitionDirectories(disk, str(tmp_path)).claim("orders", topic_id, [0])
    journal = Journal.open(disk, str(tmp_path))
    log = Log.open(disk, directory, LogSettings(), now_ms=1000, share=journal.share_for(topic_id, 0))
    journal.start()
    for number in range(5):
        produced = memoryview(bytearray(batch(0)))
        log.append(produced, read_header(produced), leader_epoch=0, now_ms=1000)
        ticket = journal.begin([log], 1000) if number else log.begin_sync()
        assert ticket is not None
        ticket.run()
        journal.finish(ticket) if isinstance(ticket, JournalTicket) else log.finish_sync(ticket)
    path = Path(directory) / f"{0:020d}.log"
    content = bytearray(path.read_bytes()[: 4 * len(batch(0))])
    content[2 * len(batch(0)) : 2 * len(batch(0)) + 80] = bytes(80)
    path.write_bytes(content)
    return path


def test_what_the_journal_has_is_no_damage(journaled: Path) -> None:
    result = run("verify", str(journaled.parent.parent.parent.parent))
    assert result.exit_code == 0
    assert "the next start puts them back" in result.output
    (row,) = rows("verify", str(journaled))
    assert (row["state"], row["damage"], row["journaled_bytes"]) == ("partly in the journal", [], 3 * len(batch(0)))
    (journaled.parent.parent.parent.parent / "journal" / "a").unlink()
    assert [row["state"] for row in rows("verify", str(journaled))] == ["damaged"]


def test_dump_says_where_the_journal_goes_on(journaled: Path) -> None:
    assert "from offset 4 on see the journal" in run("dump", str(journaled)).output


def test_a_journal_that_cannot_be_read_is_said(journaled: Path) -> None:
    journal = journaled.parent.parent.parent.parent / "journal" / "a"
    journal.unlink()
    journal.mkdir()
    result = run("verify", str(journaled))
    assert "whether the journal has more of it is not known" in result.output


def test_verify_finds_a_flipped_base_offset_that_only_the_next_batch_contradicts(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[5] ^= 0x10
    segment.write_bytes(content)
    result = run("verify", str(segment))
    assert result.exit_code == 1
    assert "damaged" in result.stdout
