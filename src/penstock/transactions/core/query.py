"""A query as the coordinator knows it: which of its batches are committed, and which of its runs may commit.

A query writes a batch by many attempts, each in a transaction of its own, and they are committed together or not at all
(ADR 0009). What the record says decides about every one of them: an attempt is *over* when its batch is committed or
given up, or when another run of the query has begun. Whatever is over and still open is aborted, whoever wrote it.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

_PAST_RUNS = 8
"""How many are remembered. One that comes later still is taken for a new run; it gets nothing doubled by that."""


class Claim(Struct, frozen=True, array_like=True, gc=False):
    """For which batch a transaction of a query is used."""

    query: str
    run: str
    batch_id: int


class Query(Struct, frozen=True, array_like=True):
    """The value of its record."""

    run: str
    """Whoever began last: the only one that may write and commit."""
    updated_ms: int
    batch_id: int = -1
    """The newest that is committed, and so are all below it."""
    given_up: int = -1
    """The newest batch of this run that its driver has aborted."""
    past_runs: tuple[str, ...] = ()
    """Newest first. They were replaced, and whatever still comes from them is late."""
    once: bool = False
    """There is one batch only, and nobody comes back for it later: not remembered for long."""

    def is_over(self, claim: Claim) -> bool:
        return claim.run != self.run or claim.batch_id <= max(self.batch_id, self.given_up)

    def taken_over(self, run: str, now_ms: int) -> Query:
        past = (self.run, *self.past_runs)[:_PAST_RUNS]
        return replace(self, run=run, given_up=-1, past_runs=past, updated_ms=now_ms)

    def without(self, run: str, now_ms: int) -> Query:
        """That one may not begin any more."""
        return replace(self, past_runs=(run, *self.past_runs)[:_PAST_RUNS], updated_ms=now_ms)

    def committed(self, batch_id: int, now_ms: int) -> Query:
        return replace(self, batch_id=batch_id, updated_ms=now_ms)

    def aborted(self, batch_id: int, now_ms: int) -> Query:
        return replace(self, given_up=max(batch_id, self.given_up), updated_ms=now_ms)
