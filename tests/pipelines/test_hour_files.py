"""What a task writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.disk.local import LocalDisk
from penstock.pipelines.core.hours import label
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.hour_files import MOST_OPEN, HourFiles


def batch(stamps: Sequence[datetime | None]) -> pa.RecordBatch:
    return pa.record_batch({"timestamp": pa.array(stamps, pa.timestamp("us", "UTC"))})


def test_one_file_per_hour_over_several_batches(tmp_path: Path) -> None:
    base = datetime(2026, 11, 16, 3, 59, 59, 999_999, tzinfo=UTC)
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    with HourFiles(str(tmp_path), LocalDisk()) as files:
        files.add(batch([base, base + timedelta(microseconds=1)]))
        files.add(batch([base, before_1970]))
    assert Counter({file.hour: file.rows for file in files.written}) == {
        "2026-11-16-03": 2,
        "2026-11-16-04": 1,
        "1969-12-31-23": 1,
    }
    for file in files.written:
        assert (tmp_path / file.name).stat().st_size == file.size_bytes
        assert pq.read_metadata(tmp_path / file.name).num_rows == file.rows


def test_many_hours_are_not_open_at_the_same_time(tmp_path: Path) -> None:
    base = datetime(2026, 1, 1, tzinfo=UTC)
    stamps = [base + timedelta(hours=hour) for hour in range(MOST_OPEN + 10)]
    with HourFiles(str(tmp_path), LocalDisk()) as files:
        files.add(batch(stamps))
        files.add(batch(stamps))
    assert sum(file.rows for file in files.written) == 2 * len(stamps)
    assert len(files.written) > len(stamps)


def test_moments_are_in_utc_whatever_zone_they_are_shown_in(tmp_path: Path) -> None:
    shown, wanted = pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC")
    moment = datetime(2026, 11, 16, 3, 30, tzinfo=UTC)
    rows = {
        "timestamp": ([moment], shown, wanted),
        "value": ([{"at": [moment]}], pa.struct([("at", pa.list_(shown))]), pa.struct([("at", pa.list_(wanted))])),
        "by_name": ([[("a", moment)]], pa.map_(pa.string(), shown), pa.map_(pa.string(), wanted)),
        "local": ([datetime(2026, 11, 16)], pa.timestamp("us"), pa.timestamp("us")),
    }
    with HourFiles(str(tmp_path), LocalDisk()) as files:
        files.add(pa.record_batch({name: pa.array(values, given) for name, (values, given, _) in rows.items()}))
    (file,) = files.written
    assert file.hour == "2026-11-16-03"
    table = pq.read_table(tmp_path / file.name)
    assert {field.name: field.type for field in table.schema} == {name: wish for name, (_, _, wish) in rows.items()}
    assert table.column("timestamp").to_pylist() == [moment]
    assert table.column("value").to_pylist() == [{"at": [moment]}]


def test_a_row_without_a_time(tmp_path: Path) -> None:
    with pytest.raises(PipelineRefused, match="a row has no timestamp"), HourFiles(str(tmp_path), LocalDisk()) as files:
        files.add(batch([datetime(2026, 1, 1, tzinfo=UTC), None]))


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
def test_labels_sort_as_time_does(moment: datetime) -> None:
    hour = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(hours=1)
    assert label(hour) == moment.strftime("%Y-%m-%d-%H").rjust(13, "0")
    assert label(hour) < label(hour + 1) or moment.year == 9999


def test_an_hour_that_no_calendar_knows() -> None:
    assert label(2**40) == "unknown"
