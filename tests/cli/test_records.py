from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.core.records import BadLine, JsonLines, Lines, Record

values = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
records = st.builds(
    Record,
    value=values,
    key=values,
    headers=st.lists(st.tuples(st.text(max_size=5), values), max_size=3).map(tuple),
    partition=st.integers(0, 100),
    timestamp_ms=st.integers(0, 2**53),
    topic=st.just("t"),
    offset=st.integers(0, 2**53),
)


@given(records)
def test_what_consume_writes_as_json_produce_reads_back(record: Record) -> None:
    line = JsonLines().write(record)
    assert b"\n" not in line
    back = JsonLines().read(line)
    assert (back.value, back.key, back.headers) == (record.value, record.key, record.headers)
    assert (back.partition, back.timestamp_ms) == (record.partition, record.timestamp_ms)


def test_json_shows_everything_that_is_known_of_a_record() -> None:
    record = Record(b"v", b"\xff", (("h", None),), partition=1, timestamp_ms=2, topic="t", offset=3)
    assert json.loads(JsonLines().write(record)) == {
        "topic": "t",
        "partition": 1,
        "offset": 3,
        "timestamp": 2,
        "key": {"base64": "/w=="},
        "value": "v",
        "headers": [["h", None]],
    }


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"value": "v"}', Record(b"v")),
        ('{"value": null, "key": "k"}', Record(None, b"k")),
        ('{"value": {"a": [1, "ü"]}}', Record('{"a": [1, "ü"]}'.encode())),
        ('{"value": 5}', Record(b"5")),
        ('{"value": "v", "headers": {"a": "b"}}', Record(b"v", headers=(("a", b"b"),))),
        ('{"value": "v", "headers": [["a", "b"], ["a", null]]}', Record(b"v", headers=(("a", b"b"), ("a", None)))),
        ('{"value": "v", "partition": 0, "timestamp": 7}', Record(b"v", partition=0, timestamp_ms=7)),
        ('{"value": "v", "topic": "other", "offset": 9}', Record(b"v")),
    ],
)
def test_json_that_people_write(line: str, record: Record) -> None:
    assert JsonLines().read(line.encode()) == record


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("text", "not JSON"),
        ("[1]", "not an object"),
        ('{"vaule": "v"}', "unknown field 'vaule'"),
        ('{"key": "k"}', 'no "value"'),
        ('{"value": {"base64": "?"}}', "not base64"),
        ('{"value": {"base64": 5}}', "not base64"),
        ('{"value": "\\ud800"}', "surrogate"),
        ('{"value": "v", "headers": "a"}', "headers must be"),
        ('{"value": "v", "headers": [["a"]]}', "headers must be"),
        ('{"value": "v", "headers": {"a": {"base64": "?"}}}', "not base64"),
        ('{"value": "v", "headers": 5}', "headers must be"),
        ('{"value": "v", "partition": "0"}', "partition must be a whole number"),
        ('{"value": "v", "partition": true}', "partition must be a whole number"),
        ('{"value": "v", "timestamp": -1}', "timestamp must be a whole number"),
    ],
)
def test_json_that_is_wrong_says_why(line: str, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        JsonLines().read(line.encode())


@given(st.binary())
def test_any_bytes_are_a_record_or_a_bad_line(line: bytes) -> None:
    try:
        JsonLines().read(line)
    except BadLine as error:
        assert str(error)


def test_lines_are_values_or_keys_and_values() -> None:
    assert Lines().read(b"a:b") == Record(b"a:b")
    assert Lines(":").read(b"a:b:c") == Record(b"b:c", b"a")
    assert Lines().write(Record(b"v", b"k")) == b"v"
    assert Lines(":").write(Record(b"v", b"k")) == b"k:v"
    assert Lines(":").write(Record(None, None)) == b":"
    with pytest.raises(BadLine, match="separator ':'"):
        Lines(":").read(b"ab")
