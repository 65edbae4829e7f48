"""`penstock serve` as a process: it starts, says where it is, and stops when asked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.simulation.planted import copy_product


def environment(**more: str) -> dict[str, str]:
    return {**{name: text for name, text in os.environ.items() if not name.startswith("PENSTOCK_")}, **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "serve", *arguments]


@contextmanager
def serving(data_dir: Path, *arguments: str, **more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A node on free ports, and the log line in which it says that it is ready."""
    ports = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--set", "log.format=json"]
    whole = command("--data-dir", str(data_dir), *ports, *arguments)
    process = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, env=environment(**more))
    assert process.stderr is not None
    try:
        yield process, next(line for line in map(json.loads, process.stderr) if line["event"] == "node.ready")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def refusal(*arguments: str, **more: str) -> tuple[int, str]:
    result = subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(**more), timeout=30, check=False
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_asked_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as (process, ready):
        host, _, port = ready["kafka"].rpartition(":")
        socket.create_connection((host, int(port))).close()
        process.send_signal(number)
        assert process.stderr is not None
        events = [json.loads(line)["event"] for line in process.stderr]
        assert process.wait() == 0
        assert events[-1] == "node.stopped"


CAN_COMPILE = shutil.which("gcc") is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


@pytest.mark.skipif(not CAN_COMPILE, reason="there is no C compiler with Python's headers")
def test_where_there_is_a_compiler_the_hot_path_is_compiled(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, ready):
        assert ready["compiled"]


def test_what_no_compiler_has_seen_serves_too(tmp_path: Path) -> None:
    """As where Penstock is installed without one."""
    with serving(tmp_path / "data", PYTHONPATH=str(copy_product(tmp_path))) as (_, ready):
        assert not ready["compiled"]
        producer = Producer({"bootstrap.servers": ready["kafka"], "acks": "all"})
        producer.produce("t", b"one")
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": ready["kafka"], "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert [message.value() for message in consumer.consume(1, timeout=30)] == [b"one"]
        consumer.close()


def test_a_second_node_on_the_same_data_says_who_has_it(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, _):
        code, text = refusal("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        assert code == 1
        assert f"process {process.pid}" in text
        assert "Traceback" not in text


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, text = refusal("--data-dir", str(tmp_path), "--listen", address, "--http", "127.0.0.1:0")
    assert code == 1
    assert "in use" in text
    assert "Traceback" not in text


def test_wrong_settings_are_all_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("retention.msec = 1\n")
    code, text = refusal("--config", str(file), "--node-id", "one", "--set", "http=x", PENSTOCK_NUM_PARTITIONS="0")
    assert code == 2
    for part in ("did you mean retention.ms?", "num.partitions='0'", "node.id='one'", "http='x'"):
        assert part in text


def test_a_missing_file_and_a_wrong_assignment_are_told(tmp_path: Path) -> None:
    code, text = refusal("--config", str(tmp_path / "none.toml"))
    assert (code, "cannot read" in text) == (2, True)
    code, text = refusal("--set", "retention.ms")
    assert (code, "write --set name=value" in text) == (2, True)
