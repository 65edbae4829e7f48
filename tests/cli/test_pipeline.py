"""`penstock pipeline` where Spark is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

# As if it were not there: Python refuses to import what is None.
WITHOUT = "import sys; sys.modules[sys.argv.pop(1)] = None; from penstock.cli.main import app; app()"


def penstock(missing: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, missing, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("missing", "command"), [("pyspark", "run"), ("pyarrow", "ranges")])
def test_what_is_missing_is_named(missing: str, command: str) -> None:
    refused = penstock(missing, "pipeline", command, "x")
    assert refused.returncode == 1
    assert f"pipelines need {missing}, which is not installed" in refused.stderr
    assert "pip install 'penstock[spark]'" in refused.stderr


def test_all_else_works_without_it() -> None:
    shown = penstock("pyspark", "--help")
    assert shown.returncode == 0
    assert "pipeline" in shown.stdout
