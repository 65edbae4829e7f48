"""Records that leave straight from their file come as they are, in their place, however slowly they are taken."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.disk.faults import FaultyDisk

from penstock.broker.api import Part
from penstock.broker.listener import bind
from penstock.broker.sending import send_parts, takes_files
from penstock.config.address import Address
from penstock.disk.interface import File, write_fully
from penstock.disk.local import LocalDisk
from penstock.units import KIB, MIB
from penstock.wire.records import Record, build_batch
from penstock.wire.stored_batches import StoredBatches

WAIT_S = 20


def batch_of(size: int) -> bytes:
    return bytes(build_batch([Record(0, 0, None, os.urandom(size))]))


class Log:
    """Whose batches they are."""

    def __init__(self) -> None:
        self.is_cut = False
        self.is_doubted = False

    def is_as_known(self, position: int, length: int) -> bool:
        return not self.is_cut

    def doubt(self) -> None:
        self.is_doubted = True


def stored(file: File, position: int, batch: bytes, log: Log) -> StoredBatches:
    write_fully(file, [batch], position)
    return StoredBatches(file, position, len(batch), 1, 1, log)


def new_file(directory: Path) -> File:
    return LocalDisk().open(f"{directory}/log", create=True)


Work = Callable[[asyncio.Transport, socket.socket], Awaitable[None]]


def with_connection(work: Work, *, client_bytes: int | None = None) -> None:
    """`client_bytes`: how much the client's end takes in while it does not read."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[asyncio.Transport] = loop.create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.set_result(cast(asyncio.Transport, transport))

        server = await loop.create_server(Accepting, sock=bind(Address("127.0.0.1", 0)))
        with socket.socket() as client:
            if client_bytes is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, client_bytes)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await work(await accepted, client)
        server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(run(), WAIT_S))


async def received(client: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer if the connection ends before."""
    loop, data = asyncio.get_running_loop(), bytearray()
    while len(data) < size:
        try:
            part = await loop.sock_recv(client, size - len(data))
        except ConnectionResetError:
            break
        if not part:
            break
        data += part
    return bytes(data)


@settings(max_examples=20, deadline=None)
@given(
    replies=st.lists(
        st.lists(st.tuples(st.booleans(), st.integers(1, 300 * KIB)), min_size=1, max_size=4), min_size=1, max_size=4
    ),
    client_bytes=st.sampled_from([None, 8 * KIB, 256 * KIB]),
)
def test_parts_arrive_in_order(
    tmp_path_factory: pytest.TempPathFactory, replies: list[list[tuple[bool, int]]], client_bytes: int | None
) -> None:
    """Some of them stored, some in memory, with a client that takes in as much as it can hold, and then reads."""
    file, position, expected = new_file(tmp_path_factory.mktemp("sending")), 0, b""
    sent: list[list[Part]] = []
    for reply in replies:
        parts: list[Part] = []
        for is_stored, size in reply:
            batch = batch_of(size)
            parts.append(stored(file, position, batch, Log()) if is_stored else batch)
            position += len(batch)
            expected += batch
        sent.append(parts)

    async def work(transport: asyncio.Transport, client: socket.socket) -> None:
        for parts in sent:
            send_parts(transport, parts)
        assert await received(client, len(expected)) == expected

    with_connection(work, client_bytes=client_bytes)


def test_nothing_is_sent_of_what_has_been_cut_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    part = stored(new_file(tmp_path), 0, batch_of(MIB), log)
    log.is_cut = True

    async def work(transport: asyncio.Transport, client: socket.socket) -> None:
        send_parts(transport, [b"before", part])
        assert await received(client, MIB) == b""

    with caplog.at_level(logging.WARNING):
        with_connection(work)
    assert "has changed" in str(caplog.records[0].__dict__["why"])


def test_a_file_that_cannot_be_read_ends_the_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk, log = FaultyDisk(LocalDisk()), Log()
    part = stored(disk.open(f"{tmp_path}/log", create=True), 0, batch_of(MIB), log)
    disk.fail("read", errno.EIO)

    async def work(transport: asyncio.Transport, client: socket.socket) -> None:
        send_parts(transport, [b"before", part])
        assert await received(client, MIB) in (b"", b"before")
        assert transport.is_closing()

    with caplog.at_level(logging.WARNING):
        with_connection(work)
    assert os.strerror(errno.EIO) in str(caplog.records[0].__dict__["why"])
    assert log.is_doubted, "or the client would meet the same again and again"


def test_a_file_that_is_shorter_than_it_should_be_ends_the_connection(tmp_path: Path) -> None:
    file, log = new_file(tmp_path), Log()
    part = stored(file, 0, batch_of(MIB), log)
    file.truncate(MIB // 2)

    async def work(transport: asyncio.Transport, client: socket.socket) -> None:
        send_parts(transport, [part])
        assert len(await received(client, 2 * MIB)) <= MIB // 2

    with_connection(work)


def test_to_a_client_that_has_gone_nothing_is_sent(tmp_path: Path) -> None:
    part = stored(new_file(tmp_path), 0, batch_of(MIB), Log())

    async def work(transport: asyncio.Transport, client: socket.socket) -> None:
        transport.abort()
        send_parts(transport, [b"too late", part])
        await asyncio.sleep(0)
        assert await received(client, MIB) == b""

    with_connection(work)


@pytest.mark.parametrize("pacing", [False, True])
def test_connections_that_pace_take_no_files(pacing: bool) -> None:
    async def work(transport: asyncio.Transport, client: socket.socket) -> None:
        if pacing:
            name = transport.get_extra_info("socket")
            try:
                name.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
            except OSError as error:
                pytest.skip(f"this system has no BBR: {error}")
        assert takes_files(transport) is not pacing

    with_connection(work)
