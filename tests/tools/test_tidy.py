"""Each rule fires on what it forbids, and stays quiet on what it allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tools.tidy import Excuse, read_excuses, tidy, tidy_files, unexcused, unread_settings
from tools.tidy_compiled import findings_in_compiled, weak_references
from tools.tidy_rules import Finding, Source, findings_in

ROOT = Path(__file__).resolve().parent.parent.parent


def found(code: str, path: str = "src/penstock/thing.py") -> list[tuple[str, str]]:
    return [(finding.rule, finding.name) for finding in findings_in(Source.parse(path, dedent(code)))]


def function_of(lines: int) -> str:
    return "def work():\n" + "    step()\n" * (lines - 1)


def class_of(methods: int) -> str:
    return "class Box:\n" + "".join(f"    def method_{number}(self): ...\n" for number in range(methods))


def test_clean_code_has_no_findings() -> None:
    assert found("class Log:\n    def append(self): ...\n") == []


@pytest.mark.parametrize(
    ("code", "findings"),
    [
        ("try:\n    work()\nexcept ValueError as error:\n    raise KeyError from error", [("compiled-cause", "")]),
        ("try:\n    work()\nexcept ValueError:\n    raise KeyError from None", []),
        ("class Log:\n    def __del__(self): ...", [("compiled-finalizer", "Log")]),
    ],
)
def test_what_compiling_would_break(code: str, findings: list[tuple[str, str]]) -> None:
    source = Source.parse("src/penstock/thing.py", code)
    assert [(finding.rule, finding.name) for finding in findings_in_compiled(source)] == findings


@pytest.mark.parametrize("code", ["import weakref", "from weakref import WeakSet"])
def test_weak_references(code: str) -> None:
    assert [each.rule for each in weak_references(Source.parse("src/penstock/thing.py", code))] == ["weak-reference"]


@pytest.mark.parametrize(("lines", "findings"), [(400, []), (401, [("long-file", "")])])
def test_a_file_over_400_lines(lines: int, findings: list[tuple[str, str]]) -> None:
    assert found("pass\n" * lines) == findings


@pytest.mark.parametrize(("lines", "findings"), [(70, []), (71, [("long-function", "work")])])
def test_a_function_over_70_lines(lines: int, findings: list[tuple[str, str]]) -> None:
    assert found(function_of(lines)) == findings


@pytest.mark.parametrize(("methods", "findings"), [(20, []), (21, [("big-class", "Box")])])
def test_a_class_over_20_methods(methods: int, findings: list[tuple[str, str]]) -> None:
    assert found(class_of(methods)) == findings


def test_the_rules_of_a_state_machine_are_not_counted() -> None:
    rules = "".join(f"    @rule(n=x)\n    def rule_{number}(self, n): ...\n" for number in range(30))
    assert found("class Machine:\n" + rules) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("class LogManager: ...", "LogManager"),
        ("def misc_things(): ...", "misc_things"),
        ("class Log:\n    def common(self): ...", "Log.common"),
        ("HTTP_HELPERS = 3", "HTTP_HELPERS"),
        ("helper: int = 3", "helper"),
    ],
)
def test_vague_names(code: str, name: str) -> None:
    assert found(code) == [("vague-name", name)]


def test_vague_file_and_directory_names() -> None:
    assert found("", "src/penstock/utils/log.py") == [("vague-name", "utils")]
    assert found("", "src/penstock/log_helpers.py") == [("vague-name", "log_helpers")]


def test_words_that_only_contain_a_vague_one_are_fine() -> None:
    assert found("def commonly_uncommon(): ...\nMISCELLANY = 1\n") == []


@pytest.mark.parametrize(
    "caught", ["except Exception:", "except BaseException:", "except:", "except (OSError, Exception):"]
)
def test_broad_excepts(caught: str) -> None:
    code = f"class Log:\n    def read(self):\n        try:\n            work()\n        {caught}\n            raise\n"
    assert found(code) == [("broad-except", "Log.read")]


def test_a_narrow_except_is_fine() -> None:
    assert found("def read():\n    try:\n        work()\n    except (OSError, ValueError):\n        raise\n") == []


def test_a_broad_except_in_a_nested_function_is_named_once() -> None:
    code = "def outer():\n    def inner():\n        try: work()\n        except Exception: raise\n"
    assert found(code) == [("broad-except", "outer.inner")]


def test_unfinished_work() -> None:
    assert found("x = 1  # TODO later\n") == [("unfinished", "TODO")]
    assert found("def f():\n    raise NotImplementedError\n") == [("unfinished", "NotImplementedError")]
    assert found("text = '# TODO is only text here'\n") == []


def test_a_setting_that_nothing_reads() -> None:
    declared = Source.parse(
        "src/penstock/config/log.py",
        "class LogSettings:\n    kept_ms: int = setting(1)\n    lost_ms: int = setting(2)\n    plain: int = 3\n",
    )
    reader = Source.parse("src/penstock/storage/log.py", "def old(settings):\n    return settings.kept_ms\n")
    test = Source.parse("tests/storage/test_log.py", "def test(settings):\n    return settings.lost_ms\n")
    findings = list(unread_settings([declared, reader, test]))
    assert [(finding.rule, finding.name, finding.line) for finding in findings] == [("unread-setting", "lost_ms", 3)]


FINDING = Finding("src/penstock/a.py", 7, "broad-except", "Log.read", "text")


def test_an_exception_excuses_by_rule_path_and_name() -> None:
    assert list(unexcused([FINDING], [Excuse("broad-except", "src/penstock/a.py", "Log.*", "reason")])) == []


@pytest.mark.parametrize(
    "excuse",
    [
        Excuse("long-file", "src/penstock/a.py", "*", "reason"),
        Excuse("broad-except", "src/penstock/b.py", "*", "reason"),
        Excuse("broad-except", "src/penstock/a.py", "Segment.*", "reason"),
    ],
)
def test_an_exception_that_excuses_nothing_is_a_finding(excuse: Excuse) -> None:
    rules = [finding.rule for finding in unexcused([FINDING], [excuse])]
    assert rules == ["broad-except", "stale-exception"]


def test_an_exception_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        read_excuses('[[exception]]\nrule = "long-file"\nwhere = "src/a.py"\nreason = "big"\n')


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A little repository with one file of the product, its test and no exceptions."""
    for directory in ("src/penstock", "tools", "tests"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "tools/tidy-exceptions.toml").write_text("")
    (tmp_path / "src/penstock/log.py").write_text(
        "CHUNK = 5\n\n\nclass Log:\n    def used(self): ...\n    def dead(self): ...\n\n\nLog().used()\n"
    )
    (tmp_path / "tests/test_log.py").write_text("from penstock.log import CHUNK, Log\n\nLog().dead(), CHUNK\n")
    (tmp_path / "pyproject.toml").write_text("[tool.penstock]\ncompiled = []\n")
    return tmp_path


def test_a_public_name_that_only_a_test_uses(repository: Path) -> None:
    findings = {(finding.rule, finding.name) for finding in tidy(repository)}
    assert findings == {("unused-name", "dead"), ("unused-name", "CHUNK")}


def test_single_files_can_be_checked_without_the_rules_over_the_whole(repository: Path) -> None:
    assert tidy_files(repository, ["src/penstock/log.py"]) == []
    (repository / "src/penstock/log.py").write_text(function_of(80))
    assert [finding.rule for finding in tidy_files(repository, ["src/penstock/log.py"])] == ["long-function"]


def test_commented_out_code_is_found_by_the_linter(tmp_path: Path) -> None:
    source = tmp_path / "thing.py"
    source.write_text("x = 1\n# y = compute(x)\n")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
        str(source),
    ]
    report = subprocess.run(command, capture_output=True, text=True, check=False)
    assert report.returncode == 1
    assert "ERA001" in report.stdout
