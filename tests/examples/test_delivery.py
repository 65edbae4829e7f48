"""The programs of docs/delivery.md, each killed in the middle and started again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.record import Record
from tests.interop.server import Server
from tests.interop.transactional import committed
from tests.interop.waiting import eventually

from penstock import testing

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = [str(number) for number in range(20)]
# A worker takes ten at a time.
FIRST, LAST = ORDERS[:10], ORDERS[10:]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with testing.node() as node, RawConnection(node.bootstrap) as connection:
        for topic in ("orders", "invoices-at-most-once", "invoices-at-least-once", "invoices-exactly-once"):
            assert connection.ask(requests.create_topic(topic)).topics[0].error_code == 0
        ConfluentClient(node.bootstrap).produce("orders", [Record(order.encode()) for order in ORDERS])
        yield Server(node.bootstrap)


def crash_and_go_on(server: Server, name: str, expected: Counter[str]) -> None:
    """Until the invoices are as expected."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--bootstrap", server.bootstrap]
    assert subprocess.run([*command, "--crash"], timeout=30).returncode == 1
    topic = f"invoices-{name.replace('_', '-')}"
    with subprocess.Popen(command) as worker:
        try:
            eventually(lambda: Counter(committed(server, topic)) == expected, f"{name} has done its work")
        finally:
            worker.terminate()
    # What it was about to do when it ended is not there either.
    assert Counter(committed(server, topic)) == expected


def test_at_most_once(server: Server) -> None:
    crash_and_go_on(server, "at_most_once", Counter(["0", *LAST]))


def test_at_least_once(server: Server) -> None:
    crash_and_go_on(server, "at_least_once", Counter(FIRST + FIRST + LAST))


def test_exactly_once(server: Server) -> None:
    crash_and_go_on(server, "exactly_once", Counter(ORDERS))
