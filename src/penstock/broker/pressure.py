"""When clients are asked to slow down: the throttle time that goes with every reply.

Kafka's clients obey it by waiting before their next request; the connection is not read from meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

# Below this share of the memory for requests nobody is slowed down.
CALM = 0.5
# At full pressure; short enough that clients recover quickly when it is over.
LONGEST_THROTTLE_MS = 1000


class Pressure:
    def __init__(self, memory_pressure: Callable[[], float]) -> None:
        self._memory_pressure = memory_pressure

    def throttle_ms(self) -> int:
        pressure = self._memory_pressure()
        if pressure <= CALM:
            return 0
        return int(LONGEST_THROTTLE_MS * (pressure - CALM) / (1 - CALM))
