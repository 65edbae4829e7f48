"""When clients are asked to slow down: the throttle time that goes with a reply.

Kafka's clients obey it by waiting before their next request; the connection is not read from meanwhile. Only large
requests are slowed down: small ones take nothing from the memory that is short, and a heartbeat that waits helps
nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.memory import CALM
from penstock.broker.receive_buffer import FREE_BYTES

# At full pressure. Short: whoever waits in the middle of its next request holds memory meanwhile, and clients should
# recover quickly when it is over.
LONGEST_THROTTLE_MS = 250


class Pressure:
    def __init__(self, memory_pressure: Callable[[], float]) -> None:
        self._memory_pressure = memory_pressure

    def throttle_ms(self, request_bytes: int) -> int:
        if request_bytes <= FREE_BYTES:
            return 0
        pressure = self._memory_pressure()
        if pressure <= CALM:
            return 0
        return int(LONGEST_THROTTLE_MS * (pressure - CALM) / (1 - CALM))
