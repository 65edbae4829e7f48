"""Every fault that is planted in a stopped node's directory is found, told for what it is, and nothing else."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.pipelines.audited import PRODUCER, audited, faults, filled, opened, partition_of
from tests.pipelines.planting import flipped
from tests.storage.batches import NOW_MS, append, batch_of

from penstock.disk.lock import DirectoryLock
from penstock.pipelines.audit_directory import DirectorySource
from penstock.pipelines.core.audit_findings import Fault, Finding, has_faults
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.storage.core.aborted import pack_rows, unpack_rows
from penstock.storage.core.checkpoint import Checkpoint
from penstock.storage.core.index_entries import OFFSETS, TIMESTAMPS, pack_entries, unpack_entries
from penstock.storage.core.leader_epochs import EpochStart
from penstock.storage.core.sealed import seal, unseal
from penstock.storage.log import Log
from penstock.wire.batch import read_header, stamp
from penstock.wire.control import Marker, build_marker
from penstock.wire.records import Record, build_batch


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    filled(tmp_path)
    return tmp_path


def segments(data_dir: Path, suffix: str = ".log") -> list[Path]:
    return sorted(partition_of(data_dir).glob(f"*{suffix}"))


def only(found: list[Finding], fault: Fault) -> Finding:
    assert {finding.fault for finding in found} == {fault}, found
    return found[0]


def checkpoint_of(data_dir: Path) -> Checkpoint:
    checkpoint = unseal((partition_of(data_dir) / "checkpoint").read_bytes(), Checkpoint)
    assert checkpoint is not None
    return checkpoint


def write_checkpoint(data_dir: Path, checkpoint: Checkpoint) -> None:
    (partition_of(data_dir) / "checkpoint").write_bytes(seal(checkpoint))


def test_nothing_is_found_in_a_sound_log(data_dir: Path) -> None:
    assert len(segments(data_dir)) >= 4
    assert any(path.stat().st_size for path in segments(data_dir, ".txnindex"))
    assert audited(data_dir) == []


def test_nothing_is_found_in_a_log_whose_node_was_killed(tmp_path: Path) -> None:
    filled(tmp_path, leave=Log.abandon)
    assert audited(tmp_path) == []


def test_an_unfinished_end_is_no_fault(tmp_path: Path) -> None:
    filled(tmp_path, leave=Log.abandon)
    last = segments(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:-7])
    found = audited(tmp_path)
    only(found, Fault.UNFINISHED)
    assert not has_faults(found)


def test_the_end_of_what_a_checkpoint_speaks_for_is_missed(data_dir: Path) -> None:
    last = segments(data_dir)[-1]
    last.write_bytes(last.read_bytes()[:-7])
    finding = only(audited(data_dir), Fault.SHORT_SEGMENT)
    assert finding.next_offset == checkpoint_of(data_dir).recovery_offset


@pytest.mark.parametrize("seed", range(40))
def test_every_flipped_bit_of_a_segment_is_found(data_dir: Path, seed: int) -> None:
    random = Random(seed)
    segment = random.choice(segments(data_dir))
    flipped(segment, random.randrange(segment.stat().st_size), random.randrange(8))
    found = audited(data_dir)
    assert has_faults(found)
    assert {finding.file for finding in found if finding.fault is Fault.DAMAGED_RECORDS} <= {segment.name}


def test_damage_is_told_by_its_offsets(data_dir: Path) -> None:
    segment = segments(data_dir)[1]
    first = read_header(segment.read_bytes())
    flipped(segment, 100)
    finding = only(audited(data_dir), Fault.DAMAGED_RECORDS)
    assert (finding.first_offset, finding.next_offset) == (first.base_offset, first.next_offset)
    assert finding.file == segment.name
    assert "Take this replica out" in str(finding.row()["do"])


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_segment_that_is_missing(data_dir: Path, place: int) -> None:
    gone = segments(data_dir)[place]
    gone.unlink()
    (finding,) = audited(data_dir)
    assert finding.fault is Fault.MISSING_SEGMENT
    assert (finding.file, finding.first_offset) == (gone.name, int(gone.stem))


@pytest.mark.parametrize("place", range(1, 5))
def test_a_segment_that_a_start_has_missed_is_missed_still(data_dir: Path, place: int) -> None:
    """And nothing else, also where a transaction that was aborted later began in it."""
    gone = segments(data_dir)[place]
    gone.unlink()
    log = opened(data_dir)
    append(log, batch_of(b"later"), leader_epoch=3)
    log.close()
    assert only(audited(data_dir), Fault.MISSING_OFFSETS).first_offset == int(gone.stem)


@pytest.mark.parametrize("kind", [OFFSETS, TIMESTAMPS])
@pytest.mark.parametrize("is_key", [False, True])
def test_an_index_that_lies(data_dir: Path, kind: str, is_key: bool) -> None:
    path = segments(data_dir, ".index" if kind == OFFSETS else ".timeindex")[1]
    entries = unpack_entries(path.read_bytes(), kind)
    changed = entries.keys if is_key else entries.positions
    changed[3] += 1
    path.write_bytes(pack_entries(entries.keys, entries.positions, entries.covers))
    wrong = Fault.WRONG_OFFSET_INDEX if kind == OFFSETS else Fault.WRONG_TIME_INDEX
    assert only(audited(data_dir), wrong).file == path.name


def test_an_index_that_names_what_is_behind_the_last_batch(data_dir: Path) -> None:
    path = segments(data_dir, ".index")[0]
    entries = unpack_entries(path.read_bytes(), OFFSETS)
    size = segments(data_dir)[0].stat().st_size
    keys, positions = (
        entries.keys + array(OFFSETS, [entries.keys[-1] + 9]),
        entries.positions + array(OFFSETS, [size - 1]),
    )
    path.write_bytes(pack_entries(keys, positions, entries.covers))
    only(audited(data_dir), Fault.WRONG_OFFSET_INDEX)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_with_a_flipped_bit(data_dir: Path, suffix: str) -> None:
    path = next(path for path in segments(data_dir, suffix) if path.stat().st_size)
    flipped(path, path.stat().st_size - 3)
    assert only(audited(data_dir), Fault.DAMAGED_INDEX).file == path.name


@pytest.mark.parametrize(
    "change", [{"producer_id": 9}, {"first_offset": 1}, {"last_offset": 1}, {"first_offset": 10**9}]
)
def test_an_index_of_aborted_transactions_that_lies(data_dir: Path, change: dict[str, int]) -> None:
    path = [path for path in segments(data_dir, ".txnindex") if path.stat().st_size][1]
    stored = unpack_rows(path.read_bytes())
    assert stored is not None
    rows = [row._replace(**change) if row is stored.rows[-1] else row for row in stored.rows]
    path.write_bytes(pack_rows(rows, 10**6))
    assert only(audited(data_dir), Fault.WRONG_TRANSACTION_INDEX).file in ("", path.name)


def test_an_index_of_aborted_transactions_that_is_missing(data_dir: Path) -> None:
    path = next(path for path in segments(data_dir, ".txnindex") if path.stat().st_size)
    path.unlink()
    only(audited(data_dir), Fault.WRONG_TRANSACTION_INDEX)


def test_an_index_that_is_missing_is_made_again(data_dir: Path) -> None:
    segments(data_dir, ".index")[0].unlink()
    found = audited(data_dir)
    only(found, Fault.NO_INDEX)
    assert not has_faults(found)


@pytest.mark.parametrize("name", ["checkpoint", "start-offset"])
def test_a_checkpoint_with_a_flipped_bit(data_dir: Path, name: str) -> None:
    log = opened(data_dir)
    log.delete_records(3)
    log.close()
    assert audited(data_dir) == []
    flipped(partition_of(data_dir) / name, 20 if name == "checkpoint" else 8)
    assert only(audited(data_dir), Fault.DAMAGED_CHECKPOINT).file == name


@pytest.mark.parametrize("change", [{"next_offset": 1000}, {"max_timestamp_ms": 5}, {"size": 77}])
def test_a_checkpoint_that_lies_about_a_segment(data_dir: Path, change: dict[str, int]) -> None:
    checkpoint = checkpoint_of(data_dir)
    rows = [
        msgspec.structs.replace(row, **change) if place == 1 else row for place, row in enumerate(checkpoint.segments)
    ]
    write_checkpoint(data_dir, msgspec.structs.replace(checkpoint, segments=rows))
    assert Fault.WRONG_CHECKPOINT in faults(data_dir) or Fault.MISSING_OFFSETS in faults(data_dir)


def test_a_checkpoint_that_lies_about_leader_epochs(data_dir: Path) -> None:
    checkpoint = checkpoint_of(data_dir)
    first, second = checkpoint.epochs
    moved = [first, EpochStart(second.epoch, second.start_offset + 1)]
    write_checkpoint(data_dir, msgspec.structs.replace(checkpoint, epochs=moved))
    finding = only(audited(data_dir), Fault.LEADER_EPOCHS)
    assert finding.first_offset == second.start_offset


def test_leader_epochs_that_go_back_from_one_segment_to_the_next(data_dir: Path) -> None:
    path = segments(data_dir)[1]
    data = bytearray(path.read_bytes())
    at = 0
    while at < len(data):
        header = read_header(data, at)
        stamp(memoryview(data)[at:], header.base_offset, 2)
        at += header.size
    path.write_bytes(data)
    (partition_of(data_dir) / "checkpoint").unlink()
    assert Fault.LEADER_EPOCHS in faults(data_dir)


def test_what_was_known_of_producers_with_a_flipped_bit(data_dir: Path) -> None:
    path = segments(data_dir, ".snapshot")[0]
    flipped(path, path.stat().st_size - 1)
    assert only(audited(data_dir), Fault.DAMAGED_SNAPSHOT).file == path.name


def test_a_topic_without_its_id(data_dir: Path) -> None:
    flipped(partition_of(data_dir).parent / "topic-id", 9)
    only(audited(data_dir), Fault.DAMAGED_TOPIC_ID)


def test_what_retention_and_deleted_records_leave_is_sound(data_dir: Path) -> None:
    log = opened(data_dir)
    log.delete_records(31)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    append(log, batch_of(b"later"), leader_epoch=3)
    log.close()
    assert audited(data_dir) == []


def test_a_directory_that_a_node_uses_is_refused(data_dir: Path) -> None:
    with DirectoryLock.take(str(data_dir)), pytest.raises(PipelineRefused, match="a node runs on"):
        DirectorySource(str(data_dir)).load(None)
    assert DirectorySource(str(data_dir)).load(None).logs
    with pytest.raises(PipelineRefused, match="no data directory"):
        DirectorySource(str(data_dir / "topics")).load(None)


def test_nothing_is_changed_by_an_audit(data_dir: Path) -> None:
    def everything() -> dict[Path, tuple[bytes, int]]:
        return {path: (path.read_bytes(), os.stat(path).st_mtime_ns) for path in data_dir.rglob("*") if path.is_file()}

    before = everything()
    audited(data_dir)
    assert everything() == before


def test_a_missing_segment_in_which_a_transaction_began_is_told_alone(tmp_path: Path) -> None:
    log = opened(tmp_path)

    def rolled() -> None:
        count = len(log.segments)
        while len(log.segments) < count + 1:
            append(log, batch_of(b"filling" * 20), leader_epoch=3)

    rolled()
    rolled()
    record = Record(0, NOW_MS, b"key", b"in a transaction")
    batch = build_batch([record], producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, memoryview(batch), leader_epoch=3)
    began = log.segments[-1].base_offset
    rolled()
    marker = build_marker(PRODUCER, 0, Marker(is_commit=False, coordinator_epoch=1), NOW_MS)
    append(log, memoryview(marker), leader_epoch=3)
    rolled()
    log.close()
    assert audited(tmp_path) == []
    (partition_of(tmp_path) / f"{began:020d}.log").unlink()
    assert only(audited(tmp_path), Fault.MISSING_SEGMENT).first_offset == began
