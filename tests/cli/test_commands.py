"""What commands say without a node: help, usage errors, nobody there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from penstock.cli.main import app


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=text)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, TyperGroup):
        yield path
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*path, name))


COMMANDS = sorted(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert f"penstock {' '.join(path)}" in " ".join(result.stdout.partition("Example:")[2].split())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_can_answer_in_json(path: tuple[str, ...]) -> None:
    if path != ("serve",):
        assert "--output" in run(*path, "--help").stdout


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens, and nobody else can begin to while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create", "t"],
        ["topic", "list"],
        ["topic", "describe", "t"],
        ["topic", "alter", "t", "--set", "retention.ms=1"],
        ["topic", "delete", "t", "--yes"],
        ["topic", "add-partitions", "t", "--total", "2"],
        ["topic", "delete-records", "t", "--before", "end", "--yes"],
        ["group", "list"],
        ["group", "describe", "g"],
        ["group", "reset-offsets", "g", "--to", "end"],
        ["group", "delete", "g"],
        ["group", "delete-offsets", "g", "--topic", "t"],
        ["produce", "t"],
        ["consume", "t"],
    ],
    ids=" ".join,
)
def test_without_a_node_a_command_says_so_at_once(arguments: list[str], nobody: str) -> None:
    result = run(*arguments, "--bootstrap", nobody)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: no node answers at {nobody}:")
    assert "penstock serve" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["topic", "list", "-b", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["topic", "create", "t", "--partitions", "0"], "--partitions"),
        (["topic", "create", "t", "--set", "retention.ms"], "write --set name=value"),
        (["topic", "alter", "t"], "nothing to change"),
        (["topic", "delete-records", "t", "--before", "yesterday"], "'yesterday' is no position"),
        (["group", "reset-offsets", "g", "--to", "soon"], "'soon' is no position"),
        (["consume", "t", "--group", "g", "--partition", "1"], "do not go together"),
        (["consume", "t", "--group", "g", "--from", "17"], "penstock group reset-offsets"),
        (["produce", "t", "--input", "json", "-k", ":"], "--key-separator goes with lines"),
        (["produce", "t", "/no/such/file"], "cannot read /no/such/file"),
        (["produce", "t", "--acks", "2"], "--acks"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_is_right(arguments: list[str], why: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.split())


def test_deleting_needs_a_yes_where_nobody_can_be_asked() -> None:
    result = run("topic", "delete", "t")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: this deletes data, and there is no terminal to ask\n       add --yes\n",
    )


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, "penstock 0.1.0\n")
