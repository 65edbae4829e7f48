"""A client that sends without a pause does not keep the event loop to itself, and loses nothing by that."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections import Counter
from typing import Any

import pytest
import uvloop

from penstock.broker.api import Api, Buffers, Caller
from penstock.broker.connection import GIVE_WAY_BYTES
from penstock.broker.connections import Connections
from penstock.broker.dispatch import Dispatch
from penstock.broker.gate import Gate
from penstock.broker.listener import bind, listen
from penstock.broker.pressure import Pressure
from penstock.clock import SystemClock
from penstock.config.address import Address
from penstock.config.network import NetworkSettings
from penstock.later import Later
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.usage import Usage
from penstock.units import MIB

REQUESTS = 48
FRAME = struct.pack(">ihhih", MIB, 0, 3, 7, -1).ljust(4 + MIB, b"\0")
WAIT_S = 20
# So long a request takes that there is always more behind it.
BUSY_S = 0.001


class Turns:
    """How much is served in each turn of the event loop. What is begun in one is answered in the next."""

    api = Api(key=0, versions=(3, 3))

    def __init__(self) -> None:
        self._turn = 0
        self._unanswered: list[Later[int]] = []
        self.served_bytes: Counter[int] = Counter()
        self.is_served = asyncio.Event()

    def count(self) -> None:
        self._turn += 1
        unanswered, self._unanswered = self._unanswered, []
        for answer in unanswered:
            answer.complete(0)
        if not self.is_served.is_set():
            asyncio.get_running_loop().call_soon(self.count)

    def read(self, frame: memoryview, body_start: int, version: int) -> int:
        return len(frame)

    def start(self, size: int, caller: Caller) -> int | Later[int]:
        time.sleep(BUSY_S)
        self.served_bytes[self._turn] += size
        if self.served_bytes.total() == REQUESTS * MIB:
            self.is_served.set()
        return self.answer()

    def answer(self) -> int | Later[int]:
        return 0

    def pack(self, response: Any, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        return ()


class LateTurns(Turns):
    """No request begins before the one ahead of it is answered, in the next turn: it waits in a full buffer."""

    def answer(self) -> Later[int]:
        answer: Later[int] = Later()
        self._unanswered.append(answer)
        return answer


@pytest.mark.parametrize("kind", [Turns, LateTurns], ids=["answered at once", "answered later"])
def test_others_have_their_turn_while_a_client_sends_and_sends(kind: type[Turns]) -> None:
    turns = kind()

    async def serve() -> None:
        metrics = BrokerMetrics(Metrics())
        gate = Gate(Dispatch([turns], metrics, Usage(10), Pressure(lambda: 0.0)))
        gate.open()
        turns.count()
        connections = Connections(NetworkSettings(), metrics, SystemClock())
        async with listen(bind(Address("127.0.0.1", 0)), gate, connections) as address:
            with socket.create_connection((address.host, address.port)) as client:
                sender = threading.Thread(target=client.sendall, args=(FRAME * REQUESTS,))
                sender.start()
                await asyncio.wait_for(turns.is_served.wait(), WAIT_S)
                sender.join()

    uvloop.run(serve())
    # A read is no longer than a request here.
    assert max(turns.served_bytes.values()) <= GIVE_WAY_BYTES + MIB
