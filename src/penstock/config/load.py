"""Where a node's settings come from: defaults < file < environment < flags.

A name that nobody knows is an error, because a misspelt setting that is silently ignored is found in production.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.config.setting import Setting
from penstock.config.settings import Settings, known_settings
from penstock.errors import PenstockError, Problem

ENVIRONMENT_PREFIX = "PENSTOCK_"
# Read by the commands that talk to a node, not by the node.
CLIENT_VARIABLES = frozenset({"PENSTOCK_BOOTSTRAP"})

# Kubernetes sets these in every pod beside a service that is called penstock or penstock-something.
_SERVICE_LINK = re.compile(r"PENSTOCK(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


class _Given(NamedTuple):
    name: str
    text: str
    origin: str


def load_settings(
    *, file_text: str | None = None, file_name: str = "", environment: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """PenstockError lists everything that is wrong, not only the first mistake."""
    given = [
        *_from_file(file_text, file_name),
        *_from_environment(environment),
        *(_Given(name, text, "flag") for name, text in flags.items()),
    ]
    known = known_settings()
    mistakes = [mistake for item in given if (mistake := _mistake(item, known))]
    if mistakes:
        raise PenstockError(Problem.INVALID_CONFIG, "\n".join(mistakes))
    # Later ones replace earlier ones of the same name.
    return Settings().overridden_by({item.name: item.text for item in given})


def parse_assignment(text: str) -> tuple[str, str]:
    """`name=value` as --set takes it."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise PenstockError(Problem.INVALID_CONFIG, f"--set {text!r} is not valid: write --set name=value")
    return name.strip(), value


def _mistake(given: _Given, known: Mapping[str, Setting]) -> str:
    item = known.get(given.name)
    if item is None:
        return f"{given.origin}: there is no setting {_shown(given, given.name)}{_suggestion(given, known)}"
    try:
        item.parse(given.text)
    except PenstockError as error:
        return f"{given.origin}: {error}"
    return ""


def _suggestion(given: _Given, known: Mapping[str, Setting]) -> str:
    # Kafka's broker-wide names carry a prefix: log.retention.ms is our retention.ms.
    ending = [name for name in known if given.name.endswith("." + name)]
    near = max(ending, key=len, default="") or next(iter(difflib.get_close_matches(given.name, known, n=1)), "")
    return f"; did you mean {_shown(given, near)}?" if near else "; docs/reference/settings.md lists them all"


def _shown(given: _Given, name: str) -> str:
    return environment_name(name) if given.origin == "environment" else name


def environment_name(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Given]:
    names = {environment_name(name): name for name in known_settings()}
    for variable, text in environment.items():
        if variable in names:
            yield _Given(names[variable], text, "environment")
        elif (
            variable.startswith(ENVIRONMENT_PREFIX)
            and variable not in CLIENT_VARIABLES
            and not _SERVICE_LINK.fullmatch(variable)
        ):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            yield _Given(name, text, "environment")


def _from_file(text: str | None, file_name: str) -> Iterator[_Given]:
    if text is None:
        return
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PenstockError(Problem.INVALID_CONFIG, f"{file_name}: not valid TOML: {error}") from None
    yield from _flattened(content, "", file_name)


def _flattened(table: Mapping[str, object], prefix: str, origin: str) -> Iterator[_Given]:
    """TOML reads retention.ms = 5 as a table in a table; so [retention] with ms = 5 is the same setting."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{name}.", origin)
        else:
            yield _Given(name, _as_text(value), origin)


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
