"""On which connections producers committed offsets: so that what one has left behind there does not count."""

from __future__ import annotations

from dataclasses import dataclass

REMEMBERED_PRODUCERS = 2000
"""Of those that committed last; about 150 bytes each. What is forgotten is as after a replay."""


@dataclass(frozen=True, slots=True)
class SentOn:
    producer_id: int
    connection: int


class ProducerConnections:
    """The newest of each. A part of `Volatile`."""

    def __init__(self, began: int) -> None:
        """`began`: as in the machine, in the order of the connections."""
        self._began = began
        self._newest: dict[int, int] = {}

    def newest(self, producer_id: int, *, is_under_way: bool) -> int:
        """0 if nothing is known. `is_under_way`: the producer has committed some since; if nobody knows on which

        connection, it was before this machine began.
        """
        return self._newest.get(producer_id, self._began if is_under_way else 0)

    def remember(self, sent: SentOn) -> None:
        self._newest.pop(sent.producer_id, None)
        self._newest[sent.producer_id] = sent.connection
        if len(self._newest) > REMEMBERED_PRODUCERS:
            del self._newest[next(iter(self._newest))]
