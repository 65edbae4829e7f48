"""The server that a development cluster and these tests start."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.coordination.stores import with_zookeeper

from penstock.config.coordination import CoordinationSettings, CoordinationTarget
from penstock.coordination.interface import Create
from penstock.coordination.zookeeper_server import ZooKeeperServer, free_ports
from penstock.errors import PenstockError, Problem

# As a program that is killed would: it has no time to stop what it started.
STARTER = """
import sys, time
from penstock.coordination.zookeeper_server import ensemble
(server,) = ensemble(sys.argv[1], 1)
server.start()
server.wait_until_ready()
print(server.pid, flush=True)
time.sleep(1000)
"""


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        watched = os.pidfd_open(int(starter.stdout.readline()))
        try:
            starter.kill()
            poll = select.poll()
            poll.register(watched)
            assert poll.poll(10_000), "it is still there ten seconds later"
        finally:
            os.close(watched)


def test_what_was_answered_is_there_after_a_crash(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = ZooKeeperServer(str(tmp_path), port)
    settings = CoordinationSettings(CoordinationTarget((server.address,)))
    try:
        server.start()
        server.wait_until_ready()
        assert server.mode() == "standalone"
        with_zookeeper(settings, lambda store: store.commit([Create("/a", b"1")]))
        server.kill()
        assert server.mode() is None
        server.start()
        server.wait_until_ready()
        node = with_zookeeper(settings, lambda store: store.read("/a"))
        assert node is not None and node.data == b"1"
        server.pause()
    finally:
        server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, signal.SIGCONT)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = ZooKeeperServer(str(tmp_path), taken.getsockname()[1])
        server.start()
        with pytest.raises(PenstockError, match="exit code") as caught:
            server.wait_until_ready()
    assert caught.value.problem is Problem.STORE_UNAVAILABLE
    assert str(server.address) in str(caught.value)


def told(program: str, **environment: str) -> str:
    """What an interpreter in this environment says is missing."""
    script = f"from penstock.coordination.zookeeper_server import java, jars\n{program}"
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode != 0
    return run.stderr


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert "apt-get install openjdk-17" in told("java()", PATH=str(tmp_path))
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    assert "newer Java than" in told("java()", PATH="", JAVA_HOME=str(tmp_path))
    blocked = "import sys, glob\nsys.modules['pyspark'] = None\n"
    if not list(Path("/usr/share/java").glob("zookeeper*.jar")):
        assert "pip install pyspark" in told(f"{blocked}jars()", PATH="")
