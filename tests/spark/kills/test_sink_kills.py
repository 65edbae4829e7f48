"""The exactly-once sink under kills, each restart with another number of tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import scale
from tests.spark.kills.killing import Killing

KILLS = 30


@pytest.mark.torture("spark-sink")
def test_every_row_is_there_once(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    killing = Killing(tmp_path, scale.seed())
    try:
        killing.run(KILLS)
        miscounted = killing.miscounted()
    finally:
        killing.broker.stop()
    for name, value in (("kills", dict(killing.kills)), ("runs", killing.runs), ("rows", killing.rows)):
        record_property(name, value)
    assert miscounted == {}
