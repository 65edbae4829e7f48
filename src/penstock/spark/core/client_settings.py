"""All that a client is told. Plain, because it is pickled to executors."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config.address import Address
from penstock.spark.core.security import Security
from penstock.units import MIB, MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    client_id: str = "penstock-spark"
    security: Security | None = None
    # One request: a broker that is silent for so long is given up.
    request_timeout_ms: int = 30 * SECOND_MS
    # One question, whomever it takes: elections, restarts and lost connections are sat out for so long.
    patience_ms: int = 2 * MINUTE_MS
    # Of one answer to Fetch. Larger ones cost memory, smaller ones a round trip and a system call each.
    fetch_max_bytes: int = 4 * MIB
    fetch_max_wait_ms: int = 500
