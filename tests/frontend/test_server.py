from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from penstock.clock import SteppedClock, SystemClock
from penstock.config.address import Address
from penstock.frontend.protocol import ANSWER_WITHIN_MS
from penstock.frontend.server import MAX_CONNECTIONS, serve_http
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.health import Health
from penstock.telemetry.metrics import Metrics

FREE_PORT = Address("127.0.0.1", 0)


class Answer(NamedTuple):
    status: int
    headers: str
    body: bytes


async def get(address: Address, path: str, accept: str = "*/*") -> Answer:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return Answer(int(head.split()[1]), head.decode().lower(), body)


def with_server(test: Callable[[Address, Metrics, Health], Awaitable[None]]) -> None:
    async def run() -> None:
        metrics, health = Metrics(), Health()
        async with serve_http(FREE_PORT, metrics, health, SystemClock()) as address:
            await test(address, metrics, health)

    asyncio.run(run())


def test_metrics_are_served_as_they_are_now() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        broker = BrokerMetrics(metrics)
        for count in (1, 2):
            broker.connections = count
            answer = await get(address, "/metrics")
            assert answer.status == 200
            assert "content-type: text/plain; version=" in answer.headers
            assert f"penstock_connections {count}.0\n".encode() in answer.body

    with_server(test)


def test_open_metrics_if_asked_for() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        answer = await get(address, "/metrics", accept="application/openmetrics-text")
        assert "content-type: application/openmetrics-text" in answer.headers

    with_server(test)


def test_health_says_ready_or_why_not() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        health.starting("log")
        answer = await get(address, "/health")
        assert (answer.status, json.loads(answer.body)) == (503, {"status": "not ready", "why": {"log": "starting"}})

        health.ready("log")
        answer = await get(address, "/health")
        assert (answer.status, json.loads(answer.body)) == (200, {"status": "ready"})

        health.failing("log", "the disk is full: free some space")
        answer = await get(address, "/health")
        assert json.loads(answer.body)["why"] == {"log": "the disk is full: free some space"}

    with_server(test)


def test_unknown_pages_are_not_found() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        assert (await get(address, "/")).status == 404

    with_server(test)


def test_garbage_gets_an_error_and_disturbs_nobody() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"\x16\x03\x01\x02\x00 this is TLS\r\n\r\n")
        assert b"400 Bad Request" in await reader.read()
        writer.close()
        assert (await get(address, "/health")).status == 200

    with_server(test)


def test_connections_beyond_the_limit_are_closed_and_those_before_it_still_served() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        streams = [await asyncio.open_connection(address.host, address.port) for _ in range(MAX_CONNECTIONS)]
        extra_reader, extra_writer = await asyncio.open_connection(address.host, address.port)
        assert await extra_reader.read() == b""
        reader, writer = streams[0]
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        for each in (extra_writer, *(writer for _, writer in streams)):
            each.close()

    with_server(test)


def test_silent_connections_make_room_and_a_client_that_is_served_stays() -> None:
    async def run() -> None:
        clock = SteppedClock()
        async with serve_http(FREE_PORT, Metrics(), Health(), clock) as address:
            streams = [await asyncio.open_connection(address.host, address.port) for _ in range(MAX_CONNECTIONS)]
            clock.advance(ANSWER_WITHIN_MS // 2)
            served_reader, served_writer = streams[0]
            served_writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            await served_reader.readuntil(b"ready")
            streams[1][1].write(b"GET /health HTTP/1.1\r\nX-Never-Ends: ")
            clock.advance(ANSWER_WITHIN_MS // 2 + 1)
            for reader, _ in streams[1:]:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
            assert (await get(address, "/metrics")).status == 200
            served_writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            await served_reader.readuntil(b"ready")
            for _, writer in streams:
                writer.close()

    asyncio.run(run())


def test_an_endless_head_is_refused() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /health HTTP/1.1\r\nX-Never-Ends: " + b"x" * 200_000)
        with contextlib.suppress(ConnectionResetError):
            assert b"400 Bad Request" in await reader.read()
        writer.close()
        assert (await get(address, "/health")).status == 200

    with_server(test)


def test_what_is_watched_is_asked_each_time() -> None:
    async def test(address: Address, metrics: Metrics, health: Health) -> None:
        reasons = ["the disk is full: free some space", None]
        health.watch("disk", lambda: reasons.pop(0))
        answer = await get(address, "/health")
        assert (answer.status, json.loads(answer.body)["why"]) == (503, {"disk": "the disk is full: free some space"})
        assert (await get(address, "/health")).status == 200

    with_server(test)


def test_the_port_is_free_again_afterwards_even_with_an_open_connection() -> None:
    async def run() -> None:
        async with serve_http(FREE_PORT, Metrics(), Health(), SystemClock()) as address:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
        await reader.read()
        writer.close()
        async with serve_http(address, Metrics(), Health(), SystemClock()) as again:
            assert again == address

    asyncio.run(run())


def test_a_port_in_use_is_an_os_error() -> None:
    async def run(address: Address) -> None:
        async with serve_http(address, Metrics(), Health(), SystemClock()):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        asyncio.run(run(Address("127.0.0.1", taken.getsockname()[1])))
