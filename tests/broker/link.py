"""The way between a Kafka client and a node, which may keep a request or its answer, or bring a request late."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple

PRODUCE = 0


class Frame(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    # Without its length.
    content: bytes
    body_start: int


class Fate(NamedTuple):
    """Of a request: whether it arrives, and what its sender gets for an answer instead of the node's.

    That comes when the node has answered a produce that was sent later on the same connection.
    """

    arrives: bool
    answer: bytes


class Late:
    """Of a request: its client finds the connection broken, and the node has it still, with the request on its way.

    The test lets it go on, and hears what it was answered.
    """

    def __init__(self) -> None:
        self.is_held = threading.Event()
        self.may_arrive: Future[None] = Future()
        # Without its length; None: the node hung up.
        self.answer: Future[bytes | None] = Future()

    def arrive(self) -> bytes | None:
        assert not self.answer.done(), "the connection is open"
        self.may_arrive.set_result(None)
        return self.answer.result(10)


class Link:
    """`fate` says what becomes of a request; None: nothing special. The port is known before there is a node."""

    def __init__(self, fate: Callable[[Frame], Fate | Late | None]) -> None:
        self._fate = fate
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._target = ("", 0)
        self._loop = asyncio.new_event_loop()
        # By connection and correlation id: answers of the node that go nowhere, and those behind which held ones go.
        self._kept: set[tuple[int, int]] = set()
        self._awaited: set[tuple[int, int]] = set()
        self._held: dict[int, list[bytes]] = {}
        self._late: dict[int, tuple[int, Late]] = {}

    @contextmanager
    def leading_to(self, bootstrap: str) -> Iterator[None]:
        host, _, port = bootstrap.rpartition(":")
        self._target = (host, int(port))
        is_open = threading.Event()
        thread = threading.Thread(target=self._run, args=(is_open,), daemon=True)
        thread.start()
        assert is_open.wait(10)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)

    def _run(self, is_open: threading.Event) -> None:
        serving = asyncio.start_server(self._connected, sock=self._listener)
        server = self._loop.run_until_complete(serving)
        is_open.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        node, to_node = await asyncio.open_connection(*self._target)
        ways = [self._there(client, to_client, to_node), self._back(node, to_client)]
        try:
            await asyncio.gather(*ways)
        except (asyncio.IncompleteReadError, ConnectionError):
            to_client.close()
            to_node.close()
        _, late = self._late.pop(id(to_client), (0, None))
        if late is not None and not late.answer.done():
            late.answer.set_result(None)

    async def _there(
        self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter, to_node: asyncio.StreamWriter
    ) -> None:
        while True:
            content = await _content(client)
            api_key, version, correlation_id, id_size = struct.unpack_from(">hhih", content)
            # Flexible versions have tagged fields behind the client's id.
            body_start = 10 + max(0, id_size) + (api_key == PRODUCE and version >= 9)
            fate = self._fate(Frame(api_key, version, correlation_id, content, body_start))
            if isinstance(fate, Late):
                self._late[id(to_client)] = correlation_id, fate
                to_client.close()
                fate.is_held.set()
                await asyncio.wrap_future(fate.may_arrive)
                to_node.write(struct.pack(">i", len(content)) + content)
                return
            if fate is not None:
                self._held.setdefault(id(to_client), []).append(fate.answer)
                self._kept.add((id(to_client), correlation_id))
            elif api_key == PRODUCE and id(to_client) in self._held:
                self._awaited.add((id(to_client), correlation_id))
            if fate is None or fate.arrives:
                to_node.write(struct.pack(">i", len(content)) + content)

    async def _back(self, node: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        while True:
            content = await _content(node)
            place = (id(to_client), struct.unpack_from(">i", content)[0])
            if place[0] in self._late:
                correlation_id, late = self._late[place[0]]
                if place[1] == correlation_id:
                    late.answer.set_result(content)
                continue
            if place not in self._kept:
                to_client.write(struct.pack(">i", len(content)) + content)
            if place in self._awaited:
                to_client.writelines(self._held.pop(id(to_client), []))


async def _content(stream: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await stream.readexactly(4))[0]
    return await stream.readexactly(size)
