"""Which run of a query asks, and whether it may."""

from __future__ import annotations

from penstock.errors import Problem, Refused
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.query import Query
from penstock.transactions.core.query_events import QueryEvent
from penstock.transactions.core.state import TransactionsState
from penstock.wire.query_ids import MAX_QUERY_CHARACTERS, MAX_RUN_CHARACTERS

_FENCED = Refused(Problem.PRODUCER_FENCED, "another run of this query has taken over: this one may not write any more")
_GIVEN_UP = Refused(Problem.INVALID_TXN_STATE, "this run of the query has given the batch up")
_MALFORMED = Refused(
    Problem.INVALID_REQUEST,
    f"a query has a name of 1 to {MAX_QUERY_CHARACTERS} characters, a run one of 1 to {MAX_RUN_CHARACTERS}, "
    "and batches are numbered from 0",
)


def admitted(
    state: TransactionsState, event: QueryEvent, limits: TransactionLimits, now_ms: int, *, once: bool
) -> Query | Refused:
    """The query as it is with this run; the same object as in the state if nothing is new about it."""
    if not (0 < len(event.query) <= MAX_QUERY_CHARACTERS and 0 < len(event.run) <= MAX_RUN_CHARACTERS):
        return _MALFORMED
    if event.batch_id < 0:
        return _MALFORMED
    known = state.queries.get(event.query)
    if known is None:
        if len(state.queries) >= limits.max_queries:
            return Refused(Problem.POLICY_VIOLATION, f"there are {limits.max_queries} queries here already")
        return Query(event.run, now_ms, once=once)
    if known.run == event.run:
        return _GIVEN_UP if known.batch_id < event.batch_id <= known.given_up else known
    return _FENCED if event.run in known.past_runs else known.taken_over(event.run, now_ms)
