"""Rows as the records of batches: the kernel, the pure version, and what wire/records.py reads of either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.batch_filling import HAS_KERNEL, BatchFilling, batch_filling
from penstock.spark.core.murmur import murmur2
from penstock.spark.pure_batch_filling import PureBatchFilling
from penstock.spark.sink_columns import FilledBatch, RowRefused, SinkColumns
from penstock.wire.records import records_of, seal_batch

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000
BIG = 1 << 20
Make = Callable[[int, int, int, int], BatchFilling]


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: list[dict[str, Any]] | None = None


texts = st.none() | st.binary(max_size=200)
header_lists = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=5)}), max_size=3
)
rows = st.lists(
    st.builds(Row, texts, texts, st.none() | st.integers(0, 4), st.none() | st.integers(0, 2**53), header_lists)
)


def columns_of(given_rows: list[Row], *, padding: int = 0, optional: bool = True) -> SinkColumns:
    """`padding`: rows in front that the arrays have in memory and do not show. Not `optional`: values alone."""
    padded = [Row(b"no", b"no", 99, -1, [{"key": "no", "value": b"no"}])] * padding + given_rows

    def column(kind: pa.DataType, name: str) -> Any:
        return pa.array([getattr(row, name) for row in padded], kind)[padding:]

    if not optional:
        return SinkColumns(None, column(pa.binary(), "value"), None, None, None)
    return SinkColumns(
        column(pa.binary(), "key"),
        column(pa.binary(), "value"),
        column(pa.int32(), "partition"),
        column(pa.int64(), "timestamp_ms"),
        column(HEADERS, "headers"),
    )


def filled(make: Make, given_rows: list[list[Row]], batch_bytes: int, **more: Any) -> list[FilledBatch]:
    filling = make(5, batch_bytes, BIG, 3)
    batches = [batch for part in given_rows for batch in filling.append(columns_of(part, **more), NOW_MS)]
    batches += sorted(filling.take())
    assert filling.held_bytes == 0
    return batches


def read(batch: FilledBatch) -> list[Row]:
    sealed = seal_batch(
        batch.payload,
        batch.record_count,
        base_timestamp_ms=batch.base_timestamp_ms,
        max_timestamp_ms=batch.max_timestamp_ms,
    )
    found = list(records_of(memoryview(sealed), limit_bytes=BIG))
    assert [record.offset for record in found] == list(range(batch.record_count))
    assert batch.max_timestamp_ms == max(record.timestamp_ms for record in found)
    return [
        Row(
            record.key,
            record.value,
            batch.partition,
            record.timestamp_ms,
            [{"key": key.decode(), "value": value} for key, value in record.headers],
        )
        for record in found
    ]


@given(st.lists(rows, max_size=3), st.sampled_from([1, 100, 1000, BIG]))
def test_every_row_is_in_its_partition_in_order(parts: list[list[Row]], batch_bytes: int) -> None:
    keyed = [[row._replace(key=row.key or b"") for row in part] for part in parts]
    found: dict[int, list[Row]] = {}
    for batch in filled(PureBatchFilling, keyed, batch_bytes):
        found.setdefault(batch.partition, []).extend(read(batch))
    expected: dict[int, list[Row]] = {}
    for key, value, wanted, timestamp_ms, headers in [row for part in keyed for row in part]:
        partition = murmur2(key or b"") % 5 if wanted is None else wanted
        whole = Row(key, value, partition, NOW_MS if timestamp_ms is None else timestamp_ms, headers or [])
        expected.setdefault(partition, []).append(whole)
    assert found == expected


@pytest.mark.skipif(not HAS_KERNEL, reason="the kernel is not built here")
@given(st.lists(rows, max_size=3), st.sampled_from([1, 100, 1000, BIG]), st.integers(0, 9), st.booleans())
def test_the_kernel_fills_the_same(parts: list[list[Row]], batch_bytes: int, padding: int, optional: bool) -> None:
    pure = filled(PureBatchFilling, parts, batch_bytes, optional=optional)
    assert filled(batch_filling, parts, batch_bytes, padding=padding, optional=optional) == pure


@pytest.mark.parametrize("make", [PureBatchFilling, batch_filling])
def test_rows_without_a_key_fill_one_batch_after_another(make: Make) -> None:
    filling = make(3, 1000, BIG, 1)
    values = pa.array([b"x" * 90] * 50)
    full = filling.append(SinkColumns(None, values, None, None, None), NOW_MS)
    assert [batch.partition for batch in full] == [1, 2, 0, 1, 2]
    assert {batch.record_count for batch in full} == {9}
    assert filling.held_bytes == sum(len(batch.payload) for batch in filling.take())


@pytest.mark.parametrize("make", [PureBatchFilling, batch_filling])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Row(None, b"x", 5), "5 is not in the range [0...5)"),
        (Row(None, b"x", -1), "-1 is not in the range"),
        (Row(None, b"x" * BIG), "larger than 1048576, which is the value of the max.request.size"),
        (Row(None, b"x", 0, 0, [{"key": None, "value": b""}]), "A header has no key"),
    ],
)
def test_what_no_topic_takes_is_refused(make: Make, row: Row, words: str) -> None:
    filling = make(5, BIG, BIG, 0)
    with pytest.raises(RowRefused) as refused:
        filling.append(columns_of([Row(b"k", b"v"), row]), NOW_MS)
    assert words in str(refused.value)


@pytest.mark.parametrize("make", [PureBatchFilling, batch_filling])
def test_batches_become_smaller_when_the_topic_wants_that(make: Make) -> None:
    filling = make(1, BIG, BIG, 0)
    filling.limit(500)
    full = filling.append(SinkColumns(None, pa.array([b"x" * 90] * 50), None, None, None), NOW_MS)
    assert {batch.record_count for batch in full} == {4}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_kafka(key: bytes, value: int) -> None:
    assert murmur2(key) == value & 0x7FFFFFFF
