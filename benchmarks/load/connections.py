"""Many connections: a hundred producers at work, beside connections that only exist."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

from benchmarks.load.job import PATIENCE_S, Job, LoadFailed, Meter, Outcome
from benchmarks.load.source import Arrivals, Source, payload

_API_VERSIONS = 18
_CLIENT_ID = b"idle"
# An ApiVersions request, version 0: what every client sends first.
_HELLO = struct.pack(f">hhih{len(_CLIENT_ID)}s", _API_VERSIONS, 0, 1, len(_CLIENT_ID), _CLIENT_ID)


class Connections(Job, tag="connections", frozen=True):
    messages: int
    idle: int = 0
    active: int = 100
    acks: str = "1"

    def run(self) -> Outcome:
        sources = [Source(self, {"acks": self.acks}) for _ in range(self.active)]
        arrivals = Arrivals(self)
        value = payload(self.message_bytes)
        for source in sources:
            source.send_one(value)
        for source in sources:
            source.finish()
        each = self.messages // self.active
        with _idle_connections(self.address, self.idle), Meter(self) as meter:
            for source in sources:
                source.send(value, each)
            for source in sources:
                source.finish()
        arrivals.expect((each + 1) * self.active)
        return meter.outcome(each * self.active)

    def written_bytes(self) -> int:
        return self.messages * self.message_bytes


@contextlib.contextmanager
def _idle_connections(address: str, count: int) -> Iterator[None]:
    """Each has introduced itself as a client does, and then stays silent."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE_S))
            connection.sendall(struct.pack(">i", len(_HELLO)) + _HELLO)
            if not connection.recv(65536):
                raise LoadFailed("the broker closed an idle connection")
        yield
