"""The line between a store and its server, with the ways in which a line fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from penstock.config.address import Address
from penstock.config.coordination import CoordinationSettings, CoordinationTarget


class Link:
    """`broken`: connections end at once. `silent`: they stay, and nothing comes through. `deaf`: no answers do."""

    def __init__(self, target: Address) -> None:
        self.broken = False
        self.silent = False
        self.deaf = False
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        self.broken = True
        for writer in self._writers:
            writer.transport.abort()

    def heal(self) -> None:
        """What was held back is lost, as are the connections that it was for."""
        self.cut()
        self.broken = self.silent = self.deaf = False

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.broken:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port)
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer, False), self._copy(far_reader, writer, True))
        self._writers -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        try:
            while data := await reader.read(65536):
                if not (self.silent or (self.deaf and answers)):
                    writer.write(data)
        except OSError:
            pass
        writer.transport.abort()


@asynccontextmanager
async def linked(settings: CoordinationSettings) -> AsyncIterator[tuple[Link, CoordinationSettings]]:
    """A link to the first server of these settings, and settings that lead through it."""
    link = Link(settings.coordination.servers[0])
    server = await asyncio.start_server(link.relay, "127.0.0.1", 0)
    try:
        here = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        yield link, replace(settings, coordination=CoordinationTarget((here,), settings.coordination.chroot))
    finally:
        server.close()
        link.cut()
