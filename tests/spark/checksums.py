"""What a million rows are, in two numbers: computed by Spark, and by a client that has nothing to do with it.

The sum of a hash of every row knows no order, and it notices a row that is missing, there twice, or changed.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from confluent_kafka import Message
from pyspark.sql import DataFrame
from tests.spark.consumed import each_consumed

# 60 bits: Spark reads hexadecimal digits as signed numbers of 64.
_DIGITS = 15
_ROW = (
    "coalesce(hex(key), '-')",
    "coalesce(hex(value), '-')",
    "coalesce(array_join(transform(headers, h -> concat(h.key, '=', coalesce(hex(h.value), '-'))), ','), '')",
    "cast(partition as string)",
)
_TIME = "cast(unix_millis(timestamp) as string)"


class Checksum(NamedTuple):
    rows: int
    hashes: int


def checksum_of(rows: DataFrame, *, times: bool = True) -> Checksum:
    """Of the columns key, value, headers, partition, and timestamp unless `times` is false."""
    row = ", ".join((*_ROW, _TIME) if times else _ROW)
    hash_ = f"conv(substr(md5(cast(concat_ws('|', {row}) as binary)), 1, {_DIGITS}), 16, 10)"
    found: Any = rows.selectExpr("count(*)", f"sum(cast({hash_} as decimal(20, 0)))").collect()[0]
    return Checksum(found[0], int(found[1] or 0))


def checksum_in(bootstrap: str, topic: str, partitions: int, *, times: bool = True) -> Checksum:
    """Of all that is committed in a topic."""
    count = total = 0
    for message in each_consumed(bootstrap, topic, partitions):
        count += 1
        total += int(hashlib.md5(_text(message, times).encode()).hexdigest()[:_DIGITS], 16)
    return Checksum(count, total)


def _text(message: Message, times: bool) -> str:
    pairs = message.headers() or []
    assert isinstance(pairs, list)
    headers = ",".join(f"{name}={_hex(value)}" for name, value in pairs)
    row = [_hex(message.key()), _hex(message.value()), headers, str(message.partition())]
    return "|".join([*row, str(message.timestamp()[1])] if times else row)


def _hex(content: str | bytes | None) -> str:
    if content is None:
        return "-"
    return (content.encode() if isinstance(content, str) else content).hex().upper()
