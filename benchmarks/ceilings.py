"""What this machine can do at best. A broker's number means little without the ceiling above it."""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import crc32c
import msgspec
from benchmarks.load.produce import Produce
from benchmarks.session import generate

from benchmarks import sink

_MIB = 1024 * 1024
_WRITE_BYTES = 1024 * _MIB
_SYNCS = 300
_SOCKET_BYTES = 2048 * _MIB
_ROUND_TRIPS = 20_000
_CHECKSUM_BYTES = 2048 * _MIB
_SUNK_MESSAGES = 2_000_000


class Ceilings(msgspec.Struct, frozen=True):
    sequential_write_mb_s: float
    sequential_write_synced_mb_s: float
    fdatasync_ms: float
    loopback_mb_s: float
    loopback_round_trips_s: float
    crc32c_mb_s: float
    producer_into_sink_mb_s: float


CEILING_WORDS = {
    "sequential_write_mb_s": "sequential write, MB/s",
    "sequential_write_synced_mb_s": "sequential write with one fdatasync at the end, MB/s",
    "fdatasync_ms": "fdatasync of 4 KiB, ms",
    "loopback_mb_s": "loopback socket, MB/s",
    "loopback_round_trips_s": "loopback round trips of 100 B, 1/s",
    "crc32c_mb_s": "crc32c, MB/s",
    "producer_into_sink_mb_s": "one producer, 1 KB, into a sink that drops all and answers at once, MB/s",
}


def measure(directory: Path) -> Ceilings:
    """Takes about six seconds; `directory` is on the disk that the brokers use.

    The files stay: deleting them would give pages back to the host in the middle of a run.
    """
    write_s, synced_s = _sequential_write_s(directory)
    return Ceilings(
        sequential_write_mb_s=_WRITE_BYTES / write_s / 1e6,
        sequential_write_synced_mb_s=_WRITE_BYTES / synced_s / 1e6,
        fdatasync_ms=_fdatasync_ms(directory),
        loopback_mb_s=_SOCKET_BYTES / _against(_drain, _pour) / 1e6,
        loopback_round_trips_s=_ROUND_TRIPS / _against(_echo, _ping),
        crc32c_mb_s=_CHECKSUM_BYTES / _crc32c_s() / 1e6,
        producer_into_sink_mb_s=_producer_into_sink_mb_s(),
    )


def _sequential_write_s(directory: Path) -> tuple[float, float]:
    chunk = os.urandom(_MIB)
    descriptor, _ = tempfile.mkstemp(dir=directory, prefix="ceiling-")
    try:
        started = time.perf_counter()
        for _ in range(_WRITE_BYTES // _MIB):
            os.write(descriptor, chunk)
        written = time.perf_counter()
        os.fdatasync(descriptor)
        return written - started, time.perf_counter() - started
    finally:
        os.close(descriptor)


def _fdatasync_ms(directory: Path) -> float:
    chunk = os.urandom(4096)
    descriptor, _ = tempfile.mkstemp(dir=directory, prefix="ceiling-")
    took_s = []
    try:
        for _ in range(_SYNCS):
            os.write(descriptor, chunk)
            started = time.perf_counter()
            os.fdatasync(descriptor)
            took_s.append(time.perf_counter() - started)
        return statistics.median(took_s) * 1000
    finally:
        os.close(descriptor)


def _against(server: Callable[[socket.socket], None], client: Callable[[socket.socket], float]) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener, server), daemon=True)
        process.start()
        try:
            with socket.create_connection(listener.getsockname()) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return client(connection)
        finally:
            process.join()


def _serve(listener: socket.socket, server: Callable[[socket.socket], None]) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server(connection)


def _drain(connection: socket.socket) -> None:
    buffer = bytearray(_MIB)
    received = 0
    while received < _SOCKET_BYTES:
        received += connection.recv_into(buffer)
    connection.sendall(b"!")


def _pour(connection: socket.socket) -> float:
    chunk = os.urandom(_MIB)
    started = time.perf_counter()
    for _ in range(_SOCKET_BYTES // _MIB):
        connection.sendall(chunk)
    connection.recv(1)
    return time.perf_counter() - started


def _echo(connection: socket.socket) -> None:
    while data := connection.recv(4096):
        connection.sendall(data)


def _ping(connection: socket.socket) -> float:
    request = os.urandom(100)
    started = time.perf_counter()
    for _ in range(_ROUND_TRIPS):
        connection.sendall(request)
        connection.recv(4096)
    return time.perf_counter() - started


def _producer_into_sink_mb_s() -> float:
    with sink.running() as address:
        outcome = generate(Produce(address=address, topic=sink.TOPIC, messages=_SUNK_MESSAGES))
    return outcome.messages * outcome.message_bytes / outcome.elapsed_s / 1e6


def _crc32c_s() -> float:
    chunk = os.urandom(_MIB)
    started = time.perf_counter()
    for _ in range(_CHECKSUM_BYTES // _MIB):
        crc32c.crc32c(chunk)
    return time.perf_counter() - started
