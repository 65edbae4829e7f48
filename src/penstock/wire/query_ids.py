"""Names of a query's transactions. The coordinator gives them out; all of one query have the same coordinator.

A *query* is whatever commits its work in numbered batches, each of them by many tasks at once: a streaming query of
Spark, or a job that repeats a numbered write until it has succeeded.
"""

from __future__ import annotations

_PREFIX = "__query/"
_SEPARATOR = "/"

MAX_QUERY_CHARACTERS = 512
"""The name is in every record of the query's transactions, as part of their transactional ids."""
MAX_RUN_CHARACTERS = 128


def attempt_id(query: str, number: int) -> str:
    """A transactional id of this query. Ask FindCoordinator for any of them, and it is the query's."""
    return f"{_PREFIX}{query}{_SEPARATOR}{number}"


def is_attempt_id(transactional_id: str) -> bool:
    return transactional_id.startswith(_PREFIX)


def coordinated_name(transactional_id: str) -> str:
    """By what the coordinator of a transactional id is found: the query's part of it, if it has one."""
    if not is_attempt_id(transactional_id):
        return transactional_id
    head, separator, _ = transactional_id.rpartition(_SEPARATOR)
    return head if separator and len(head) >= len(_PREFIX) else transactional_id
