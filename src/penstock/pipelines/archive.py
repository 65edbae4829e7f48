"""`archive`: a topic becomes a table, exactly once.

Raw, a row is the record as it is. With a schema the value is read as JSON; what is none, or does not fit, goes as it
is to a table beside it, with the reason. A record without a value (a deletion, in a compacted topic) is readable, and
null.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.progress import Told
from penstock.pipelines.stage_source import READ, REASON
from penstock.pipelines.table_sink import TableSink
from penstock.pipelines.topic_stream import TopicRun, read_stream, run_into

RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)

# Spark reads JSON as far as it has a value, and does not mind what follows: a second one, say. So the value is read as
# a part of something larger, whose end must be found behind it.
_VALUE, _END, _CORRUPT = "value", "penstock_end", "corrupt"
_NO_TEXT = "the value is not UTF-8"
_NO_FIT = "the value is not JSON that fits the schema"


def archive(session: SparkSession, run: TopicRun, json_schema: str | None, told: Told) -> None:
    """`json_schema` as Spark writes it: `id long, items array<struct<name: string>>`."""
    schema, fields = RECORDS, None
    if json_schema is not None:
        fields = _parsed(json_schema)
        value = pa.struct(list(to_arrow_schema(fields, timezone="UTC")))
        schema = RECORDS.set(RECORDS.get_field_index("value"), pa.field("value", value))
    sink = TableSink(session, run.target, schema, run.checkpoint_directory, run.starts, told)
    rows = read_stream(session, run, sink.starts).select(*RECORDS.names)
    if fields is not None:
        sink.keep_unreadable(RECORDS)
        rows = _read(rows, fields)
    run_into(sink, rows, run)


def _parsed(json_schema: str) -> StructType:
    try:
        fields = StructType.fromDDL(json_schema)
    except ParseException as error:
        raise PipelineRefused(f"{json_schema!r} is no schema: {str(error).strip()}") from None
    if not isinstance(fields, StructType) or not fields.fields:
        raise PipelineRefused(f"{json_schema!r} is no schema: write columns, as in 'id long, name string'")
    if '"nullable":false' in fields.json():
        raise PipelineRefused(f"{json_schema!r} is no schema: without NOT NULL, because what a value lacks is null")
    return fields


def _read(rows: DataFrame, fields: StructType) -> DataFrame:
    text = f.col("value").cast("string")
    larger = f.concat(f.lit(f'{{"{_VALUE}":'), text, f.lit(f',"{_END}":1}}'))
    whole = StructType().add(_VALUE, fields).add(_END, "integer").add(_CORRUPT, "string")
    parsed = f.from_json(larger, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    read = rows.withColumn(READ, parsed)
    found = f.col(READ)
    missing = found[_VALUE].isNull() | found[_END].isNull() | found[_CORRUPT].isNotNull()
    reason = (
        f.when(f.col("value").isNull(), f.lit(None))
        .when(~f.is_valid_utf8(text), f.lit(_NO_TEXT))
        .when(missing, f.lit(_NO_FIT))
    )
    return read.withColumn(REASON, reason).withColumn(READ, found[_VALUE])
