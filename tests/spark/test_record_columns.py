"""Batches as columns: the kernel, the pure version and the broker's own decoder see the same, or all refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import PenstockError
from penstock.spark.arrow_batches import ArrowBatches, arrow_schema
from penstock.spark.core.row_columns import Column, wanted_bits
from penstock.spark.core.topic_partition import TopicPartition
from penstock.spark.pure_record_columns import PureRecordColumns
from penstock.spark.record_columns import HAS_KERNEL, RecordColumns, record_columns
from penstock.units import MIB
from penstock.wire.batch import HEADER_BYTES, BatchHeader, read_header
from penstock.wire.records import Record, RecordHeader, build_batch, records_of
from penstock.wire.varints import MalformedRecord

Make = Callable[[int], RecordColumns]

ALL = tuple(Column)
WHERE = TopicPartition("orders", 3)
EVERYTHING = (0, 2**62)
# Without a compiler there is one decoder, and it is compared with the broker's alone.
DECODERS: list[Make] = [PureRecordColumns, record_columns] if HAS_KERNEL else [PureRecordColumns]

milliseconds = st.integers(-(2**63) // 1000 + 1, (2**63 - 1) // 1000)
headers = st.lists(st.builds(RecordHeader, st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=3)
some_bytes = st.none() | st.binary(max_size=200)


@st.composite
def record_lists(draw: st.DrawFn, most: int = 12) -> list[Record]:
    deltas = sorted(draw(st.sets(st.integers(0, 300) | st.integers(0, 2**31 - 1), max_size=most)))
    return [
        Record(1000 + delta, draw(milliseconds), draw(some_bytes), draw(some_bytes), tuple(draw(headers)))
        for delta in deltas
    ]


def rows_of(
    make: Make,
    batches: Sequence[bytes | bytearray],
    columns: Sequence[Column] = ALL,
    bounds: tuple[int, int] = EVERYTHING,
) -> list[dict[str, object]]:
    decoder = make(wanted_bits(columns))
    for batch in batches:
        decoder.append(memoryview(batch)[HEADER_BYTES:], read_header(batch), *bounds)
    made = ArrowBatches(columns, WHERE).batch(decoder.take())
    made.validate(full=True)
    assert made.schema.equals(arrow_schema(columns))
    plain = [pa.int64() if pa.types.is_timestamp(column.type) else column.type for column in made.columns]
    cast = [column.cast(kind) for column, kind in zip(made.columns, plain, strict=True)]
    rows: list[dict[str, object]] = pa.RecordBatch.from_arrays(cast, names=made.schema.names).to_pylist()
    return rows


def expected_row(record: Record, header: BatchHeader, columns: Sequence[Column]) -> dict[str, object]:
    pairs = [{"key": key.decode("utf-8", "replace"), "value": value} for key, value in record.headers]
    row: dict[Column, object] = {
        Column.KEY: record.key,
        Column.VALUE: record.value,
        Column.TOPIC: "orders",
        Column.PARTITION: 3,
        Column.OFFSET: record.offset,
        Column.TIMESTAMP: 1000 * record.timestamp_ms,
        Column.TIMESTAMP_TYPE: int(header.is_log_append_time),
        Column.HEADERS: pairs or None,
    }
    return {str(column): row[column] for column in columns}


@pytest.mark.parametrize("make", DECODERS)
@given(
    lists=st.lists(record_lists(), max_size=4),
    append_time=st.none() | milliseconds,
    columns=st.lists(st.sampled_from(ALL), unique=True, min_size=1),
    bounds=st.tuples(st.integers(990, 1310), st.integers(990, 1310)),
)
def test_columns_are_what_the_records_say(
    make: Make,
    lists: list[list[Record]],
    append_time: int | None,
    columns: list[Column],
    bounds: tuple[int, int],
) -> None:
    batches = [
        build_batch(records, base_offset=1000, is_log_append_time=append_time is not None, max_timestamp_ms=append_time)
        for records in lists
    ]
    expected = [
        expected_row(record, read_header(batch), columns)
        for batch in batches
        for record in records_of(batch, limit_bytes=MIB)
        if bounds[0] <= record.offset < bounds[1]
    ]
    assert rows_of(make, batches, columns, bounds) == expected


@pytest.mark.parametrize("make", DECODERS)
@given(records=record_lists(5), data=st.data())
def test_all_refuse_the_same_damage(make: Make, records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records, base_offset=1000)
    for _ in range(data.draw(st.integers(0, 3))):
        if len(batch) > HEADER_BYTES:
            batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch = batch[: data.draw(st.just(len(batch)) | st.integers(HEADER_BYTES, len(batch)))]
    # The length of what is left, so that the broker's decoder looks inside.
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    expected: list[dict[str, object]] | None
    try:
        expected = [expected_row(record, read_header(batch), ALL) for record in records_of(batch, limit_bytes=MIB)]
        if any(abs(int(str(row["timestamp"]))) >= 2**63 for row in expected):
            expected = None
    except PenstockError:
        expected = None
    seen: list[dict[str, object]] | None
    try:
        seen = rows_of(make, [batch])
    except MalformedRecord as error:
        assert str(error)
        seen = None
    assert seen == expected


@pytest.mark.skipif(not HAS_KERNEL, reason="the kernel was not built: there is no compiler")
@given(payload=st.binary(max_size=120), count=st.integers(0, 12), columns=st.sets(st.sampled_from(ALL), min_size=1))
def test_kernel_and_reference_agree_on_any_bytes(payload: bytes, count: int, columns: set[Column]) -> None:
    header = read_header(build_batch([], last_offset=100))._replace(record_count=count)

    def outcome(make: Make) -> object:
        decoder = make(wanted_bits(columns))
        try:
            decoder.append(payload, header, *EVERYTHING)
        except MalformedRecord:
            return None
        return ArrowBatches(tuple(columns), WHERE).batch(decoder.take()).to_pydict()

    assert outcome(record_columns) == outcome(PureRecordColumns)


@pytest.mark.parametrize("make", DECODERS)
def test_taken_columns_stay_and_the_next_begin_empty(make: Make) -> None:
    decoder = make(wanted_bits(ALL))
    arrow = ArrowBatches(ALL, WHERE)
    made = []
    for base in range(0, 5000, 1000):
        records = [
            Record(base + at, at, None if at % 3 else b"k%d" % at, b"v" * at, (RecordHeader(b"h", None),) * (at % 2))
            for at in range(1000)
        ]
        batch = build_batch(records, base_offset=base)
        decoder.append(memoryview(batch)[HEADER_BYTES:], read_header(batch), *EVERYTHING)
        assert decoder.rows == 1000
        assert decoder.data_bytes >= 1000 * 999 // 2
        made.append(arrow.batch(decoder.take()))
        assert decoder.rows == decoder.data_bytes == 0
    rows = pa.Table.from_batches(made).to_pylist()
    assert [row["offset"] for row in rows] == list(range(5000))
    assert all(
        row["key"] == (None if at % 3 else b"k%d" % at) for at, row in zip([*range(1000)] * 5, rows, strict=True)
    )
    assert all(row["value"] == b"v" * (row["offset"] % 1000) for row in rows)
    assert all((row["headers"] is not None) == row["offset"] % 2 for row in rows)


@pytest.mark.parametrize("make", DECODERS)
def test_a_timestamp_that_microseconds_cannot_say_is_refused(make: Make) -> None:
    batch = build_batch([Record(7, 2**62, None, b"v")], base_offset=7)
    with pytest.raises(MalformedRecord, match=f"offset 7 has timestamp {2**62}"):
        rows_of(make, [batch])
    assert rows_of(make, [batch], [Column.VALUE]) == [{"value": b"v"}]


def test_the_schema_is_what_spark_expects() -> None:
    spark = StructType(
        [
            StructField("key", BinaryType()),
            StructField("value", BinaryType()),
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("timestampType", IntegerType()),
            StructField(
                "headers",
                ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
            ),
        ]
    )
    assert arrow_schema(ALL).equals(to_arrow_schema(spark, timezone="UTC"))
