"""`penstock consume --group` as a process that is ended in the middle of its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from penstock.testing import TestNode, node

RECORDS = 12
# More than a pipe holds, so that not even the first record gets through while nobody reads.
RECORD_BYTES = 200_000


@pytest.fixture(scope="module")
def server() -> Iterator[TestNode]:
    with node() as started:
        yield started


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def consuming(bootstrap: str, topic: str, *more: str) -> subprocess.Popen[bytes]:
    options = ["--group", topic, "--from", "beginning", "--bootstrap", bootstrap]
    command = [sys.executable, "-m", "penstock", "consume", topic, *options, *more]
    # As in most containers: writes to standard output may be partial then.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def whole_lines(written: bytes) -> list[bytes]:
    return written.split(b"\n")[:-1]


def terminate(process: subprocess.Popen[bytes]) -> bytes:
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=30)[0]


def interrupt(process: subprocess.Popen[bytes]) -> bytes:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=30)[0]


def hang_up(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(30) == 0
    process.stderr.close()
    return b""


@pytest.mark.parametrize("end", [terminate, interrupt, hang_up])
def test_what_was_not_written_out_is_not_committed(
    server: TestNode, end: Callable[[subprocess.Popen[bytes]], bytes]
) -> None:
    topic = f"ended-by-{end.__name__}"
    large = [b"%d" % number + b"x" * RECORD_BYTES for number in range(RECORDS)]
    produce(server.bootstrap, topic, [b"small"])
    with consuming(server.bootstrap, topic) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"small\n"
        produce(server.bootstrap, topic, large)
        # It writes again now, and cannot get to the end of what it writes.
        start = first.stdout.read(1)
        written = whole_lines(start + end(first))
    with consuming(server.bootstrap, topic, "--exit-at-end") as second:
        rest = whole_lines(second.communicate(timeout=30)[0])
    assert [line[:10] for line in rest[-RECORDS:]] == [value[:10] for value in large[-len(rest) :]]
    assert len(rest) >= RECORDS - len(written)
