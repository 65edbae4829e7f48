from __future__ import annotations

import pytest

from penstock.spark.core.option_values import OptionError
from penstock.spark.core.row_schema import columns_of, row_schema


def test_the_columns_of_the_kafka_source() -> None:
    plain = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert row_schema(include_headers=False) == plain
    assert row_schema(include_headers=True) == plain + ", headers array<struct<key:string,value:binary>>"


def test_a_narrower_schema() -> None:
    assert columns_of([("offset", "bigint"), ("value", "binary")]) == ("offset", "value")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([("ofset", "bigint")], "no column 'ofset': did you mean 'offset'"),
        ([("zzz", "bigint")], "no column 'zzz': there are key, value"),
        ([("value", "string")], "Column 'value' is binary, not string: read it as that and cast it"),
        ([], "reads nothing"),
    ],
)
def test_columns_that_there_are_not(fields: list[tuple[str, str]], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        columns_of(fields)
