from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.logs import JsonFormat, TextFormat, configure_logging


def record_of(event: str, **fields: object) -> logging.LogRecord:
    return logging.getLogger("penstock.test").makeRecord(
        "penstock.test", logging.WARNING, "file", 1, event, (), None, extra=fields
    )


def test_text_lines_hold_event_and_fields() -> None:
    line = TextFormat().format(
        record_of("connection.closed", peer="10.0.0.1", why="length prefix is negative", count=3)
    )
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning connection\.closed peer=10\.0\.0\.1 "
        r'why="length prefix is negative" count=3',
        line,
    )


@given(st.text(), st.text())
def test_whatever_a_client_sends_stays_on_one_line(event: str, value: str) -> None:
    record = record_of("event", client_id=value)
    record.msg = event
    for formatter in (TextFormat(), JsonFormat()):
        assert len(formatter.format(record).splitlines()) == 1


@given(st.text())
def test_json_lines_give_the_value_back(value: str) -> None:
    line = json.loads(JsonFormat().format(record_of("topic.created", topic=value)))
    assert (line["event"], line["topic"], line["level"], line["logger"]) == (
        "topic.created",
        value,
        "warning",
        "penstock.test",
    )


def failed_record() -> logging.LogRecord:
    record = record_of("request.failed", api="Fetch")
    try:
        raise KeyError("lost")
    except KeyError as error:
        record.exc_info = (KeyError, error, error.__traceback__)
    return record


def test_a_traceback_follows_the_line() -> None:
    first, *rest = TextFormat().format(failed_record()).splitlines()
    assert first.endswith("request.failed api=Fetch")
    assert rest[-1] == "KeyError: 'lost'"
    assert "KeyError: 'lost'" in json.loads(JsonFormat().format(failed_record()))["traceback"]


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("root_logger")
def test_level_and_format_are_chosen_and_can_be_chosen_again() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("text", "info", first)
    configure_logging("json", "warning", second)
    logging.getLogger("penstock.x").info("not.shown")
    logging.getLogger("penstock.x").warning("shown", extra={"n": 1})
    assert first.getvalue() == ""
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["shown"]
