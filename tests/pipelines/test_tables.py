"""What every table promises, whatever its format."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.disk.faults import FaultyDisk
from tests.pipelines.table_driver import MAKERS, Maker, commit, offsets_in, rows, written

from penstock.disk.local import LocalDisk
from penstock.pipelines.core.ledger import Range
from penstock.pipelines.core.names import Attempt
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.hour_files import HourFiles
from penstock.pipelines.tables.table import Batch, Outcome

DISK = LocalDisk()


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Maker:
    return MAKERS[request.param]


def test_batches_add_up(make: Maker, tmp_path: Path) -> None:
    table = make(str(tmp_path), DISK)
    assert not table.ledgers()
    assert commit(table, DISK, 0, 0, 25) is Outcome.COMMITTED
    assert commit(table, DISK, 1, 25, 40) is Outcome.COMMITTED
    again = make(str(tmp_path), DISK)
    assert offsets_in(again, DISK) == list(range(40))
    assert again.ledgers()["q"].batch_id == 1
    assert again.ledgers()["q"].ranges == (Range("orders", 0, 0, 40),)


def test_a_batch_that_comes_again_changes_nothing(make: Maker, tmp_path: Path) -> None:
    table = make(str(tmp_path), DISK)
    commit(table, DISK, 0, 0, 10)
    commit(table, DISK, 1, 10, 20)
    for batch_id in (0, 1):
        # On a handle of its own too: delta-rs would append it.
        assert commit(make(str(tmp_path), DISK), DISK, batch_id, 10 * batch_id, 10 * batch_id + 10) is Outcome.ALREADY
    assert offsets_in(table, DISK) == list(range(20))


def test_a_batch_without_rows_is_remembered(make: Maker, tmp_path: Path) -> None:
    """Transaction markers alone have offsets, and no rows."""
    table = make(str(tmp_path), DISK)
    commit(table, DISK, 0, 0, 10)
    empty = written(table, DISK, 1, 10, 10)
    assert table.commit(Batch(empty.attempt, [], [Range("orders", 0, 10, 12)])) is Outcome.COMMITTED
    assert table.ledgers()["q"].ranges == (Range("orders", 0, 0, 12),)
    assert commit(table, DISK, 2, 12, 20) is Outcome.COMMITTED
    assert offsets_in(table, DISK) == [*range(10), *range(12, 20)]


def test_offsets_that_are_there_are_refused(make: Maker, tmp_path: Path) -> None:
    table = make(str(tmp_path), DISK)
    commit(table, DISK, 0, 0, 10)
    with pytest.raises(PipelineRefused, match="offsets 5 to 9 of orders-0 are in the table already"):
        commit(table, DISK, 1, 5, 15)
    assert offsets_in(table, DISK) == list(range(10))


def test_of_two_drivers_one_wins(make: Maker, tmp_path: Path) -> None:
    """Both have written their files before either commits."""
    first, second = make(str(tmp_path), DISK), make(str(tmp_path), DISK)
    mine, theirs = written(first, DISK, 0, 0, 10), written(second, DISK, 0, 0, 10)
    assert second.commit(theirs) is Outcome.COMMITTED
    assert first.commit(mine) is Outcome.ALREADY
    assert offsets_in(first, DISK) == list(range(10))


def test_drivers_at_the_same_moment(make: Maker, tmp_path: Path) -> None:
    """Three commit the same batches in threads of their own; a fourth has a query of its own."""
    drivers = [("q", 0), ("q", 0), ("q", 0), ("other", 1000)]
    tables = [make(str(tmp_path), DISK) for _ in drivers]
    barrier = threading.Barrier(len(drivers), timeout=30)

    def drive(number: int) -> list[Outcome]:
        query, start = drivers[number]
        outcomes = []
        for batch_id in range(3):
            begin = start + 10 * batch_id
            batch = written(tables[number], DISK, batch_id, begin, begin + 10, query)
            barrier.wait()
            outcomes.append(tables[number].commit(batch))
        return outcomes

    with ThreadPoolExecutor() as pool:
        outcomes = [outcome for found in pool.map(drive, range(len(drivers))) for outcome in found]
    assert outcomes.count(Outcome.COMMITTED) == 6
    assert outcomes.count(Outcome.ALREADY) == 6
    assert offsets_in(tables[0], DISK) == [*range(30), *range(1000, 1030)]
    assert set(tables[0].ledgers()) == {"q", "other"}


def test_of_two_queries_with_the_same_offsets_one_is_refused(make: Maker, tmp_path: Path) -> None:
    """Two checkpoints for one table: somebody's mistake, which nobody would see in it."""
    first, second = make(str(tmp_path), DISK), make(str(tmp_path), DISK)
    mine, theirs = written(first, DISK, 0, 0, 10), written(second, DISK, 0, 5, 15, "other")
    first.commit(mine)
    with pytest.raises(PipelineRefused, match="offsets 5 to 9 of orders-0 are in the table already"):
        second.commit(theirs)
    assert offsets_in(first, DISK) == list(range(10))
    assert set(second.ledgers()) == {"q"}


def test_a_topic_that_was_created_anew_is_another(make: Maker, tmp_path: Path) -> None:
    """With a new checkpoint a query begins where the table ends: of another topic it would leave out what is before."""
    table = make(str(tmp_path), DISK)
    table.commit(replace(written(table, DISK, 0, 0, 10), topic_ids={"orders": "one"}))
    assert table.ledgers()["q"].topic_ids == {"orders": "one"}
    for query in ("q", "other"):
        with pytest.raises(PipelineRefused, match="a topic orders that was deleted since: its id was one"):
            table.commit(replace(written(table, DISK, 1, 10, 20, query), topic_ids={"orders": "two"}))
        more = written(table, DISK, 1, 10 if query == "q" else 20, 20 if query == "q" else 30, query)
        assert table.commit(replace(more, topic_ids={"orders": "one", "clicks": "two"})) is Outcome.COMMITTED
    assert offsets_in(table, DISK) == list(range(30))


def test_queries_with_the_same_offsets_at_the_same_moment(make: Maker, tmp_path: Path) -> None:
    tables = [make(str(tmp_path), DISK) for _ in range(3)]
    barrier = threading.Barrier(len(tables), timeout=30)

    def drive(number: int) -> bool:
        batch = written(tables[number], DISK, 0, 0, 10, f"q{number}")
        barrier.wait()
        try:
            return tables[number].commit(batch) is Outcome.COMMITTED
        except PipelineRefused:
            return False

    with ThreadPoolExecutor() as pool:
        committed = list(pool.map(drive, range(len(tables))))
    # None is possible where each sees the other: then they come again, one after another.
    assert offsets_in(tables[0], DISK) == [*range(10)] * committed.count(True)
    assert committed.count(True) <= 1
    assert len(tables[0].ledgers()) == committed.count(True)


def test_files_that_no_task_told_of_are_not_in_it(make: Maker, tmp_path: Path) -> None:
    """A task failed, and its second attempt wrote the same rows."""
    table = make(str(tmp_path), DISK)
    batch = written(table, DISK, 0, 0, 10)
    again = written(table, DISK, 0, 0, 10)
    # The leftovers of another are in the same stage.
    for file in again.files:
        DISK.rename(f"{_stage(tmp_path, again)}/{file.name}", f"{_stage(tmp_path, batch)}/{file.name}")
    table.commit(batch)
    assert offsets_in(table, DISK) == list(range(10))
    table.discard("q")
    assert not list(tmp_path.rglob("_staged/*"))


def _stage(root: Path, batch: Batch) -> str:
    (found,) = root.rglob(f"_staged/{batch.attempt.name}")
    return str(found)


def test_who_was_thrown_away_commits_nothing(make: Maker, tmp_path: Path) -> None:
    table = make(str(tmp_path), DISK)
    late = written(table, DISK, 0, 0, 10)
    table.discard("q")
    with pytest.raises(OSError):
        table.commit(late)
    assert not table.ledgers()
    assert commit(table, DISK, 0, 0, 10) is Outcome.COMMITTED
    assert offsets_in(table, DISK) == list(range(10))


def test_compaction_keeps_rows_and_ledger(make: Maker, tmp_path: Path) -> None:
    table = make(str(tmp_path), DISK)
    for batch_id in range(6):
        commit(table, DISK, batch_id, 5 * batch_id, 5 * batch_id + 5)
    ledgers = table.ledgers()
    before, after = table.compact()
    assert before == 12
    assert after == 3
    assert len(table.files()) == 3
    assert offsets_in(table, DISK) == list(range(30))
    assert table.ledgers() == ledgers
    assert commit(table, DISK, 5, 25, 30) is Outcome.ALREADY
    assert commit(table, DISK, 6, 30, 35) is Outcome.COMMITTED
    assert table.compact().files_after == 4
    assert offsets_in(table, DISK) == list(range(35))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_two_merge_at_the_same_moment(kind: str, tmp_path: Path) -> None:
    """While a third commits. Of Parquet tables one merges at a time: see test_opening.py."""
    tables = [MAKERS[kind](str(tmp_path), DISK) for _ in range(3)]
    for batch_id in range(2):
        commit(tables[0], DISK, batch_id, 10 * batch_id, 10 * batch_id + 10)
    barrier = threading.Barrier(len(tables), timeout=30)

    def drive(number: int) -> None:
        barrier.wait()
        if number:
            tables[number].compact()
        else:
            for batch_id in range(2, 4):
                commit(tables[number], DISK, batch_id, 10 * batch_id, 10 * batch_id + 10)

    with ThreadPoolExecutor() as pool:
        list(pool.map(drive, range(len(tables))))
    assert offsets_in(tables[0], DISK) == list(range(40))
    tables[0].compact()
    assert len(tables[0].files()) == 4
    assert offsets_in(tables[0], DISK) == list(range(40))


@pytest.mark.parametrize("hour", [2**31, -(2**31)])
def test_a_time_that_no_calendar_has_stops_nobody(make: Maker, tmp_path: Path, hour: int) -> None:
    """Of a producer that sends microseconds, say."""
    table = make(str(tmp_path), DISK)
    for batch_id in range(2):
        attempt = Attempt("q", batch_id, f"a{batch_id}")
        with HourFiles(table.stage(attempt), DISK) as files:
            files.add(rows([3 * batch_id, 3 * batch_id + 1], hour))
            files.add(rows([3 * batch_id + 2]))
        table.commit(Batch(attempt, files.written, [Range("orders", 0, 3 * batch_id, 3 * batch_id + 3)]))
    assert table.compact() == (4, 2)
    assert offsets_in(table, DISK) == list(range(6))


def test_a_driver_dies_at_every_step(make: Maker, tmp_path: Path) -> None:
    """The disk takes nothing more after so many operations; another driver goes on with what is there."""
    table = make(str(tmp_path), DISK)
    for steps in range(100):
        disk = FaultyDisk(LocalDisk())
        dying = make(str(tmp_path), disk)
        batch = written(dying, disk, steps, 4 * steps, 4 * steps + 4)
        disk.pull_after(steps, lambda: None)
        try:
            dying.commit(batch)
        except OSError:
            # Some steps come after the commit, and then it is there.
            ledger = table.ledgers().get("q")
            expected = Outcome.ALREADY if ledger is not None and ledger.batch_id == steps else Outcome.COMMITTED
            after = make(str(tmp_path), DISK)
            after.discard("q")
            assert commit(after, DISK, steps, 4 * steps, 4 * steps + 4) is expected
        else:
            break
    assert 5 < steps < 99
    assert offsets_in(table, DISK) == list(range(4 * steps + 4))


def test_a_full_disk_is_told_and_leaves_nothing(make: Maker, tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    table = make(str(tmp_path), disk)
    commit(table, disk, 0, 0, 10)
    for room_bytes in (0, 100, 2000, 4000):
        disk.fill(room_bytes)
        with pytest.raises(OSError) as failure:
            commit(table, disk, 1, 10, 30)
        assert failure.value.errno == errno.ENOSPC
        disk.make_room()
        assert offsets_in(table, disk) == list(range(10))
    assert commit(table, disk, 1, 10, 30) is Outcome.COMMITTED
    assert offsets_in(table, disk) == list(range(30))
