"""When clients are asked to slow down: the throttle time that goes with a reply.

Kafka's clients obey it by waiting before their next request; the connection's next request waits in any case.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.memory import CALM

# At full pressure. Short: whoever waits in the middle of its next request holds memory meanwhile, and clients should
# recover quickly when it is over.
LONGEST_THROTTLE_MS = 250


class Pressure:
    def __init__(self, memory_pressure: Callable[[], float]) -> None:
        self._memory_pressure = memory_pressure

    def throttle_ms(self) -> int:
        pressure = self._memory_pressure()
        if pressure <= CALM:
            return 0
        return int(LONGEST_THROTTLE_MS * (pressure - CALM) / (1 - CALM))
