"""What is written exactly once, as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """`run`: whoever writes it now; another run of the same query replaces this one. `once`: no run comes after it."""

    query: str
    run: str
    batch_id: int
    once: bool = False

    def __str__(self) -> str:
        return f"batch {self.batch_id} of query {self.query}"
