"""House rules that no linter knows: sizes, names, dead settings and names, broad excepts, what compiling would break.

    python -m tools.tidy              every rule over the whole repository
    python -m tools.tidy PATH ...     the rules that look at one file, for these files

Exceptions are in tools/tidy-exceptions.toml, each with its reason; one that excuses nothing is a finding itself.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tools.tidy_compiled import compiled_modules, findings_in_compiled, weak_references
from tools.tidy_rules import Finding, Source, findings_in, module_variables

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = "tools/tidy-exceptions.toml"
TREES = ("src", "tools", "benchmarks", "examples", "tests")
# What calls product code: a name that only a test uses is dead.
USERS = ("src", "tools", "benchmarks", "examples")
SETTINGS = "src/penstock/config"
# Called by asyncio on a protocol of ours.
ASYNCIO_CALLS = (
    "connection_made,connection_lost,get_buffer,buffer_updated,data_received,eof_received,pause_writing,resume_writing"
)
# Called by Spark on a data source of ours, which it finds by its name.
SPARK_CALLS = (
    "DefaultSource,streamReader,streamWriter,pushFilters,initialOffset,latestOffset,reportLatestOffset,"
    "getDefaultReadLimit,prepareForTriggerAvailableNow"
)
# Called by those who register them.
REGISTERED = "@*.command,@*.callback,@pytest.fixture"

_VULTURE_LINE = re.compile(r"^(?P<path>.+?):(?P<line>\d+): unused (?P<kind>[\w ]+?) '(?P<name>\w+)'")


@dataclass(frozen=True)
class Excuse:
    """An entry of the exceptions file. `where` and `name` may hold wildcards."""

    rule: str
    where: str
    name: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        return (
            finding.rule == self.rule and fnmatchcase(finding.path, self.where) and fnmatchcase(finding.name, self.name)
        )


def read_excuses(text: str) -> list[Excuse]:
    entries = tomllib.loads(text).get("exception", [])
    excuses = [Excuse(entry["rule"], entry["where"], entry.get("name", "*"), entry["reason"]) for entry in entries]
    for excuse in excuses:
        if len(excuse.reason.split()) < 3:
            raise ValueError(f"the exception for {excuse.rule} in {excuse.where} needs a reason that explains it")
    return excuses


def unexcused(findings: Iterable[Finding], excuses: list[Excuse]) -> Iterator[Finding]:
    """Findings that nothing excuses, and excuses that cover no finding."""
    unused = set(excuses)
    for finding in findings:
        covering = [excuse for excuse in excuses if excuse.covers(finding)]
        unused.difference_update(covering)
        if not covering:
            yield finding
    for excuse in excuses:
        if excuse in unused:
            text = f"nothing in {excuse.where} needs the exception from {excuse.rule} for {excuse.name}: drop it"
            yield Finding(EXCEPTIONS, 1, "stale-exception", excuse.name, text)


def sources(root: Path, trees: Iterable[str] = TREES) -> list[Source]:
    paths = sorted(path for tree in trees for path in (root / tree).rglob("*.py"))
    return [Source.parse(str(path.relative_to(root)), path.read_text()) for path in paths]


def unread_settings(source_files: list[Source]) -> Iterator[Finding]:
    """A setting is read where its field is an attribute, or matched by name, outside the declarations."""
    product = [source for source in source_files if source.path.startswith("src/")]
    readers = [source for source in product if not source.path.startswith(SETTINGS)]
    read = {node.attr for source in readers for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
    for source in product:
        if source.path.startswith(SETTINGS):
            for field in _setting_fields(source.tree):
                if field.id not in read:
                    text = f"no code reads the setting {field.id}: add a setting with the code that reads it"
                    yield Finding(source.path, field.lineno, "unread-setting", field.id, text)


def _setting_fields(tree: ast.Module) -> Iterator[ast.Name]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Name) and called.id == "setting":
                yield node.target


def unused_names(root: Path, source_files: list[Source]) -> Iterator[Finding]:
    """Functions, classes, methods and module variables of the product that vulture finds no use of.

    Fields are left out: a record of a wire or file format has fields that only its codec sees.
    """
    constants = {(source.path, name.id) for source in source_files for name in module_variables(source.tree)}
    for line in _vulture(root).splitlines():
        match = _VULTURE_LINE.match(line)
        if match is None or not match["path"].startswith("src/"):
            continue
        path, name, kind = match["path"], match["name"], match["kind"]
        if kind in ("function", "class", "method", "property") or (path, name) in constants:
            text = f"nothing uses the {kind} {name}: drop it, or use it"
            yield Finding(path, int(match["line"]), "unused-name", name, text)


def _vulture(root: Path) -> str:
    trees = [tree for tree in USERS if (root / tree).is_dir()]
    command = [sys.executable, "-m", "vulture", "--min-confidence", "60", *trees]
    command += ["--ignore-decorators", REGISTERED, "--ignore-names", f"{ASYNCIO_CALLS},{SPARK_CALLS}"]
    report = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if report.returncode not in (0, 3):
        raise RuntimeError(f"vulture failed:\n{report.stdout}{report.stderr}")
    return report.stdout


def tidy(root: Path) -> list[Finding]:
    parsed = sources(root)
    compiled = compiled_modules(root)
    findings = [finding for source in parsed for finding in findings_in(source)]
    for source in parsed:
        findings += findings_in_compiled(source) if source.path in compiled else ()
        findings += weak_references(source) if source.path.startswith("src/") else ()
    findings += unread_settings(parsed)
    findings += unused_names(root, parsed)
    return list(unexcused(findings, read_excuses((root / EXCEPTIONS).read_text())))


def tidy_files(root: Path, paths: list[str]) -> list[Finding]:
    excuses = read_excuses((root / EXCEPTIONS).read_text())
    parsed = [Source.parse(path, (root / path).read_text()) for path in paths]
    found = [finding for source in parsed for finding in findings_in(source)]
    return [finding for finding in found if not any(excuse.covers(finding) for excuse in excuses)]


def main(arguments: list[str]) -> int:
    found = tidy_files(ROOT, arguments) if arguments else tidy(ROOT)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
