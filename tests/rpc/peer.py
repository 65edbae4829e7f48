"""A peer whose every byte the test decides, on the event loop of the connection that is tested."""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, ParamSpec

import uvloop
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse

from penstock.config.address import Address
from penstock.rpc.core.call import Call, call_of

P = ParamSpec("P")

# Every wait has a limit, so that what hangs fails.
LIMIT_S = 20


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an asynchronous test on uvloop, and fails it for whatever the loop was told that nobody expected."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def watched() -> None:
            unexpected: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
            async with asyncio.timeout(LIMIT_S):
                await test(*args, **kwargs)
            assert unexpected == []

        uvloop.run(watched())

    return run


class Served:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> tuple[int, bytes]:
        """The correlation id of the next request, and all of it without the prefix."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(length)
        return struct.unpack_from(">i", frame, 4)[0], frame

    def answer(self, correlation_id: int, body: bytes = b"") -> None:
        self.writer.write(framed(struct.pack(">i", correlation_id) + body))

    def reset(self) -> None:
        """As if the process had died with bytes unread."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def until_gone(self) -> None:
        """Reads until the other end is closed."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass


class Listener:
    def __init__(self, address: Address) -> None:
        self.address = address
        self.accepted: asyncio.Queue[Served] = asyncio.Queue()

    async def accept(self) -> Served:
        return await self.accepted.get()


@asynccontextmanager
async def listening(address: Address | None = None) -> AsyncIterator[Listener]:
    """At a free port, unless told where."""
    place = address or free_address()
    listener = Listener(place)
    server = await asyncio.start_server(
        lambda reader, writer: listener.accepted.put_nowait(Served(reader, writer)), place.host, place.port
    )
    try:
        yield listener
    finally:
        server.close()


def free_address() -> Address:
    """Nobody listens there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", probe.getsockname()[1])


@contextmanager
def deaf_address() -> Iterator[Address]:
    """Somebody listens and never accepts: with its queue full the kernel drops what comes, as a lost network does."""
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        yield Address("127.0.0.1", deaf.getsockname()[1])


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def a_call(body: bytes = b"", *, limit: int = 1000) -> Call[bytes]:
    """An answer to it is any bytes."""
    frame = bytearray(struct.pack(">ihhi", 8 + len(body), 3, 0, 0) + body)
    return Call(frame, False, lambda answer, start: bytes(answer[start:]), answer_limit_bytes=limit)


def api_versions() -> Call[ApiVersionsResponse]:
    """The smallest request that every broker answers."""
    return call_of(ApiVersionsRequest(), ApiVersionsResponse)
