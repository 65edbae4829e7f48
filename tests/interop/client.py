"""What a scenario asks of a client library. One adapter per library in `clients/`; scenarios are written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pytest
from tests.interop.record import Record


class Refusal(Exception):
    """The broker said no. `code` is Kafka's error code, whatever the library calls it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def refused(code: int) -> pytest.RaisesExc[Refusal]:
    """`with refused(40): ...` fails unless the broker says exactly that."""
    return pytest.RaisesExc(Refusal, check=lambda error: error.code == code)


class Client(Protocol):
    """Every call opens its own connection and closes it, so scenarios share no client state."""

    @property
    def name(self) -> str: ...

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        """Sends all records and waits for their acknowledgement (acks=0: until they have left)."""
        ...

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        """Exactly `count` records from `offset` on, without a group."""
        ...

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset that can be read, and the one behind the last."""
        ...

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset whose record is not older; None if all are."""
        ...

    def read_in_group(self, group: str, topic: str, count: int) -> list[Record]:
        """Joins, reads exactly `count` records from where the group stands (or the beginning), commits, leaves."""
        ...
