"""A running `penstock dev-cluster`, on ports that nobody has."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.coordination.zookeeper_server import free_ports

HTTP_DISTANCE = 9324 - 9092


def free_base_port(brokers: int) -> int:
    """Free a moment ago, with those that follow it."""
    for base in free_ports(200):
        wanted = [base + n + distance for n in range(brokers) for distance in (0, HTTP_DISTANCE)]
        if all(is_free(port) for port in wanted):
            return base
    raise AssertionError("no neighbouring ports are free")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@contextmanager
def dev_cluster(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Once it is ready; and where its brokers are."""
    command = [sys.executable, "-m", "penstock", "dev-cluster", "--output", "json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        answer = "".join(iter(process.stdout.readline, "}\n"))
        yield process, json.loads(answer + "}")["bootstrap_servers"]
    finally:
        if process.poll() is None:
            # It stops its brokers itself; without that they would stay.
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        process.stdout.close()
