"""Several broker processes of one host: what each is given, what cannot be had, and when one is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.core.restarts import Restarts
from penstock.cli.host_processes import host_processes
from penstock.config.load import load_settings, parse_assignment
from penstock.config.settings import Settings
from penstock.errors import PenstockError, Problem

FLAGS = {
    "coordination": "zookeeper://zk:2181/penstock",
    "node.id": "10",
    "listen": "0.0.0.0:9092",
    "http": "127.0.0.1:9324",
    "retention.ms": "5000",
}


def given(arguments: list[str]) -> tuple[Settings, list[str]]:
    """What the process makes of them, and what is no setting."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    while arguments:
        name, text, *arguments = arguments
        if name == "--set":
            flags.update([parse_assignment(text)])
        else:
            rest += [name, text]
    return load_settings(environment={}, flags=flags), rest


def test_each_has_its_id_its_ports_and_its_directory_and_shares_the_rest(tmp_path: Path) -> None:
    flags = {**FLAGS, "data.dir": str(tmp_path), "advertised.listener": "broker.example.com:19092"}
    settings = load_settings(environment={}, flags=flags)
    planned = host_processes(settings, 3, flags, "penstock.toml", 77)
    assert [process.name for process in planned] == ["broker 10", "broker 11", "broker 12"]
    for number, process in enumerate(planned):
        own, rest = given(list(process.arguments))
        assert rest == ["--config", "penstock.toml", "--parent", "77"]
        assert own.node.node_id == 10 + number
        assert own.node.data_dir == str(tmp_path / str(number))
        assert str(own.network.listen) == f"0.0.0.0:{9092 + number}"
        assert str(own.network.advertised_listener) == f"broker.example.com:{19092 + number}"
        assert str(own.network.http) == str(process.http) == f"127.0.0.1:{9324 + number}"
        assert own.log == settings.log and own.coordination == settings.coordination


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("coordination", "embedded", "set coordination to zookeeper://"),
        ("listen", "127.0.0.1:0", "listen=127.0.0.1:0"),
        ("listen", "127.0.0.1:65535", "listen=127.0.0.1:65535"),
        ("http", "127.0.0.1:65535", "http=127.0.0.1:65535"),
    ],
)
def test_what_cannot_be_had_with_several_is_refused(tmp_path: Path, name: str, text: str, word: str) -> None:
    flags = {**FLAGS, "data.dir": str(tmp_path), name: text}
    with pytest.raises(PenstockError) as refused:
        host_processes(load_settings(environment={}, flags=flags), 2, flags, None, 77)
    assert refused.value.problem is Problem.INVALID_CONFIG
    assert word in str(refused.value)


def test_the_data_of_a_single_process_is_not_left_aside(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    flags = {**FLAGS, "data.dir": str(tmp_path)}
    with pytest.raises(PenstockError, match="the data of a single process"):
        host_processes(load_settings(environment={}, flags=flags), 2, flags, None, 77)


def test_what_ends_again_and_again_is_started_less_and_less_often() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert restarts.pause_s(59) == 30
    assert [restarts.pause_s(60), restarts.pause_s(0)] == [1, 2]
