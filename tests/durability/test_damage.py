"""Files changed behind the node's back, between two starts: readers get right records or an error, never wrong ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from tests.durability import clients

from penstock.errors import PenstockError
from penstock.testing import node
from penstock.wire.batch import read_header

VALUES = [f"value {number}".ljust(60).encode() for number in range(200)]
TOPIC_DIRECTORY = "topics/orders/partition-0"
SETTINGS = {"segment.bytes": "4096", "index.interval.bytes": "100", "offsets.topic.num.partitions": "2"}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a node that was stopped cleanly, with records in several segments and some groups."""
    data = tmp_path_factory.mktemp("stopped")
    fill(data, lambda: None)
    return data


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, as a process that was killed leaves it."""
    data, copy = tmp_path_factory.mktemp("running"), tmp_path_factory.mktemp("copies") / "data"
    # What the journal has is put back into its log, and whether it has the end is up to how the batches fell together.
    fill(data, lambda: shutil.copytree(data, copy), {"flush.policy": "os"})
    return copy


def fill(data: Path, at_the_end: Callable[[], object], more_settings: Mapping[str, str] = MappingProxyType({})) -> None:
    with node({**SETTINGS, **more_settings}, data_dir=str(data)) as broker:
        written = clients.write(broker.bootstrap, "orders", VALUES)
        assert list(written.values()) == VALUES
        for group in ("billing", "reports"):
            assert clients.commit(broker.bootstrap, group, "orders", 5) is None
        at_the_end()


@pytest.fixture
def data(tmp_path: Path, stopped: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "data"))


@pytest.fixture
def unclean(tmp_path: Path, crashed: Path) -> Path:
    return Path(shutil.copytree(crashed, tmp_path / "data"))


def files_of(data: Path, suffix: str) -> list[Path]:
    return sorted(data.glob(f"{TOPIC_DIRECTORY}/*{suffix}"))


def batch_starts(log: Path) -> list[int]:
    data, position = log.read_bytes(), 0
    starts = []
    while position < len(data):
        starts.append(position)
        position += read_header(data, position).size
    return starts


def flip(path: Path, position: int, bit: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= bit
    path.write_bytes(content)


def read_around(bootstrap: str, topic: str = "orders") -> tuple[dict[int, bytes], dict[int, ErrorCode]]:
    """Every offset on its own: its record, or the error that a reader there gets."""
    found: dict[int, bytes] = {}
    refused: dict[int, ErrorCode] = {}
    end = clients.watermarks(bootstrap, topic)[1]
    offset = 0
    while offset < end:
        fetched = clients.fetch(bootstrap, topic, offset)
        if fetched.code is ErrorCode.none:
            assert fetched.values, f"neither records nor an error at offset {offset}"
            found |= fetched.values
            offset = max(fetched.values) + 1
        else:
            refused[offset] = fetched.code
            offset += 1
    return found, refused


@pytest.mark.parametrize("segment", [0, -1])
@pytest.mark.parametrize("field", [0, 7, 10, 11, 12, 15, 16, 17, 25, 43, 57, 70])
def test_one_bit_of_a_flushed_batch(data: Path, segment: int, field: int, caplog: pytest.LogCaptureFixture) -> None:
    """The fields of a header, among them those that the CRC does not cover, and the records."""
    log = files_of(data, ".log")[segment]
    starts = batch_starts(log)
    damaged = starts[len(starts) // 2]
    header = read_header(log.read_bytes(), damaged)
    flip(log, damaged + field)
    with node(SETTINGS, data_dir=str(data)) as broker:
        found, refused = read_around(broker.bootstrap)
        assert found == {offset: VALUES[offset] for offset in found}
        assert set(refused) == set(range(header.base_offset, header.next_offset))
        assert set(refused.values()) == {ErrorCode.corrupt_message}
        assert len(found) + len(refused) == len(VALUES)
        assert "are damaged on disk" in clients.said(caplog)
        assert clients.try_to_write(broker.bootstrap, "orders", b"goes on").offset == len(VALUES)
    with node(SETTINGS, data_dir=str(data)) as broker:
        assert read_around(broker.bootstrap) == (found | {len(VALUES): b"goes on"}, refused)


def test_a_consumer_is_told_of_damage_and_can_go_on_behind_it(data: Path) -> None:
    log = files_of(data, ".log")[1]
    damaged = batch_starts(log)[2]
    header = read_header(log.read_bytes(), damaged)
    flip(log, damaged + 70)
    with node(SETTINGS, data_dir=str(data)) as broker:
        with pytest.raises(KafkaException) as refusal:
            clients.read(broker.bootstrap, "orders")
        assert refusal.value.args[0].code() == KafkaError.INVALID_MSG
        behind = clients.read(broker.bootstrap, "orders", header.next_offset)
        assert behind == dict(enumerate(VALUES[header.next_offset :], header.next_offset))


@pytest.mark.parametrize("kept", [-1, -70, 5, 60, 61])
def test_a_torn_batch_at_the_end_is_dropped_and_said(
    unclean: Path, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = files_of(unclean, ".log")[-1]
    last = batch_starts(log)[-1]
    content = log.read_bytes()
    header = read_header(content, last)
    log.write_bytes(content[: last + kept] if kept > 0 else content[:kept])
    with node(SETTINGS, data_dir=str(unclean)) as broker:
        assert "torn tail" in clients.said(caplog)
        kept_values = dict(enumerate(VALUES[: header.base_offset]))
        assert clients.read(broker.bootstrap, "orders") == kept_values
        assert clients.try_to_write(broker.bootstrap, "orders", b"goes on").offset == header.base_offset
        assert clients.read(broker.bootstrap, "orders") == kept_values | {header.base_offset: b"goes on"}


@pytest.mark.parametrize("garbage", [bytes(4096), b"\xff" * 10, b"Penstock " * 100])
def test_garbage_behind_the_end_is_dropped_and_said(
    data: Path, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with files_of(data, ".log")[-1].open("ab") as log:
        log.write(garbage)
    with node(SETTINGS, data_dir=str(data)) as broker:
        assert "torn tail" in clients.said(caplog)
        assert clients.read(broker.bootstrap, "orders") == dict(enumerate(VALUES))
        assert clients.try_to_write(broker.bootstrap, "orders", b"goes on").offset == len(VALUES)


def test_a_flushed_segment_that_was_cut_is_an_error_where_it_was(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = files_of(data, ".log")[0]
    first_lost = read_header(log.read_bytes(), batch_starts(log)[3]).base_offset
    first_after = int(files_of(data, ".log")[1].stem)
    log.write_bytes(log.read_bytes()[: batch_starts(log)[3] + 10])
    with node(SETTINGS, data_dir=str(data)) as broker:
        found, refused = read_around(broker.bootstrap)
        assert found == {offset: VALUES[offset] for offset in found}
        assert set(refused) == set(range(first_lost, first_after))
        assert "are damaged on disk" in clients.said(caplog)


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_segment_that_is_gone_is_an_error_where_it_was(
    data: Path, which: int, caplog: pytest.LogCaptureFixture
) -> None:
    logs = files_of(data, ".log")
    gone = logs[which]
    start = int(gone.stem)
    end = len(VALUES) if gone == logs[-1] else int(logs[logs.index(gone) + 1].stem)
    gone.unlink()
    with node(SETTINGS, data_dir=str(data)) as broker:
        found, refused = read_around(broker.bootstrap)
        assert found == {offset: VALUES[offset] for offset in found}
        assert set(refused) == set(range(start, end))
        assert "are damaged on disk" in clients.said(caplog)
        assert clients.try_to_write(broker.bootstrap, "orders", b"goes on").offset == len(VALUES)


def _remove(path: Path) -> None:
    path.unlink()


def _fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"\x5a" * max(100, path.stat().st_size))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    if path.stat().st_size:
        flip(path, path.stat().st_size // 2)


@pytest.mark.parametrize("harm", [_remove, _fill_with_garbage, _cut, _flip])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", "checkpoint", ".snapshot", "start-offset"])
def test_what_can_be_made_again_from_the_log_is(
    data: Path, suffix: str, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    harmed = [path for path in files_of(data, suffix) if path.stat().st_size]
    for path in harmed:
        harm(path)
    with node(SETTINGS, data_dir=str(data)) as broker:
        assert read_around(broker.bootstrap) == (dict(enumerate(VALUES)), {})
        for offset in (1, 99, 150, 199):
            assert clients.fetch(broker.bootstrap, "orders", offset).values[offset] == VALUES[offset]
        assert clients.offset_at(broker.bootstrap, "orders", 1) == 0
        assert clients.try_to_write(broker.bootstrap, "orders", b"goes on").offset == len(VALUES)
        if harmed and suffix in (".index", ".timeindex") and harm is not _flip:
            assert "index" in clients.said(caplog)
        if suffix == "checkpoint" and harm is not _remove:
            assert "the checkpoint was unreadable" in clients.said(caplog)


@pytest.mark.parametrize("harm", [_remove, _fill_with_garbage, _cut, _flip])
def test_records_whose_topic_is_unknown_are_not_deleted(data: Path, harm: Callable[[Path], None]) -> None:
    identity = data / "topics" / "orders" / "topic-id"
    good = identity.read_bytes()
    harm(identity)
    with pytest.raises(PenstockError, match="topic-id"), node(SETTINGS, data_dir=str(data)):
        pass
    identity.write_bytes(good)
    with node(SETTINGS, data_dir=str(data)) as broker:
        assert clients.read(broker.bootstrap, "orders") == dict(enumerate(VALUES))


@pytest.mark.parametrize("name", ["snapshot", "journal-*"])
def test_damaged_metadata_keeps_the_node_from_starting(data: Path, name: str) -> None:
    """Rather than to go on without topics that exist, and to delete their records as nobody's."""
    (path,) = (data / "coordination").glob(name)
    flip(path, 20)
    with pytest.raises(PenstockError, match="coordination store cannot be read"), node(SETTINGS, data_dir=str(data)):
        pass
    flip(path, 20)
    with node(SETTINGS, data_dir=str(data)) as broker:
        assert clients.read(broker.bootstrap, "orders") == dict(enumerate(VALUES))


def test_damaged_group_offsets_are_an_error_for_their_groups_alone(data: Path) -> None:
    # billing is in partition 0, reports in 1: the CRC of the name, modulo the number of partitions.
    log = next((data / "topics" / "__consumer_offsets" / "partition-0").glob("*.log"))
    flip(log, 80)
    with node(SETTINGS, data_dir=str(data)) as broker:
        assert clients.committed(broker.bootstrap, "reports", "orders") == 5
        error = clients.commit(broker.bootstrap, "billing", "orders", 6, timeout_s=1)
        assert error is not None
        assert clients.read(broker.bootstrap, "orders") == dict(enumerate(VALUES))
