"""Torture tests are chosen by name, and leave evidence of what they saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.torture import Evidence, repeat_command

pytest_plugins = ["pytester"]

FACTS = {"seed": 7, "minutes": None, "commit": "abc"}

TESTS = """
    import pytest

    @pytest.mark.torture("kills")
    def test_kills(record_property):
        record_property("kills", 100)

    @pytest.mark.torture("fuzz")
    def test_fuzz():
        assert False

    def test_ordinary():
        assert False
"""


def run(pytester: pytest.Pytester, names: list[str], evidence: Path) -> None:
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers = torture(name)\n")
    pytester.inline_run(plugins=[Evidence(names, FACTS, evidence)])


def test_a_name_runs_its_tests_only_and_leaves_evidence(pytester: pytest.Pytester, tmp_path: Path) -> None:
    run(pytester, ["kills"], tmp_path)
    assert [path.name for path in tmp_path.glob("*.json")] == ["kills.json"]
    evidence = json.loads((tmp_path / "kills.json").read_text())
    assert evidence["passed"] is True
    assert evidence["command"] == "make torture kills SEED=7"
    assert evidence["tests"][0]["saw"] == {"kills": 100}


def test_without_a_name_all_torture_tests_run(pytester: pytest.Pytester, tmp_path: Path) -> None:
    run(pytester, [], tmp_path)
    passed = {path.stem: json.loads(path.read_text())["passed"] for path in tmp_path.glob("*.json")}
    assert passed == {"kills": True, "fuzz": False}


def test_an_unknown_name_runs_nothing(pytester: pytest.Pytester, tmp_path: Path) -> None:
    run(pytester, ["kill"], tmp_path)
    assert list(tmp_path.glob("*.json")) == []


def test_the_command_repeats_length_and_seed() -> None:
    assert repeat_command("fuzz", {"seed": 3, "minutes": 2.5}) == "make torture fuzz MINUTES=2.5 SEED=3"
