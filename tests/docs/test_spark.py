"""docs/spark.md has every option that a reader takes."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.core.source_options import KNOWN_OPTIONS, USELESS_OPTIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()


def test_every_option_is_explained() -> None:
    assert [name for name in KNOWN_OPTIONS if name not in USELESS_OPTIONS and f"`{name}`" not in PAGE] == []
