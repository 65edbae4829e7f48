from __future__ import annotations

import json

import pytest

from penstock.cli.output import Output, show_fields, show_rows
from penstock.cli.progress import summary_text

ROWS = [
    {"topic": "orders", "partition": 2, "replicas": [1, 2], "hidden": "x", "owner": None},
    {"topic": "a[b]", "partition": 10, "replicas": [], "hidden": "y", "owner": "me"},
]


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(Output.TEXT, ROWS, ["topic", "partition", "replicas", "owner"])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "TOPIC   PARTITION  REPLICAS  OWNER",
        "orders          2  1, 2      -",
        "a[b]           10  -         me",
    ]


def test_long_lines_stay_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(Output.TEXT, [{"topic": "t" * 249}], ["topic"])
    assert "t" * 249 in capsys.readouterr().out


def test_json_has_every_field_with_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(Output.JSON, ROWS, ["topic"])
    assert json.loads(capsys.readouterr().out) == ROWS


def test_fields(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields(Output.TEXT, {"topic": "orders", "created": True})
    assert capsys.readouterr().out == "topic    orders\ncreated  True\n"
    show_fields(Output.JSON, {"topic": "orders", "created": True})
    assert json.loads(capsys.readouterr().out) == {"topic": "orders", "created": True}


def test_rates() -> None:
    assert (
        summary_text("produced", 2000, 4_000_000, 2.0)
        == "produced 2,000 records, 4.0 MB in 2.0 s, 1,000 records/s, 2.0 MB/s"
    )
    assert summary_text("produced", 1, 0, 0.0) == "produced 1 record, 0.0 MB in 0.0 s"
