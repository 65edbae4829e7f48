"""Names of files and directories in a table, and what can be read from them.

`QUERY.FIRST-LAST` for batches, `QUERY.BATCH.ATTEMPT` for what is staged. A query has no dot in its name, so a name
can be taken apart again. What begins with an underscore is not data to Spark, pyarrow and their like.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.pipelines.core.refusal import PipelineRefused

STAGED = "_staged"
BATCH = "batch="

_QUERY = re.compile(r"[A-Za-z0-9_-]{1,100}")
_BATCHES = re.compile(rf"{BATCH}({_QUERY.pattern})\.(\d{{19}})-(\d{{19}})")
_STAGED = re.compile(rf"({_QUERY.pattern})\.(\d{{19}})\.([A-Za-z0-9_-]+)")


class Batches(NamedTuple):
    """A directory of a Parquet table: all rows of these batches, both ends included."""

    query: str
    first: int
    last: int

    @property
    def directory(self) -> str:
        return f"{BATCH}{self.query}.{self.first:019}-{self.last:019}"

    def covers(self, other: Batches) -> bool:
        return self.query == other.query and self.first <= other.first and other.last <= self.last

    @classmethod
    def parse(cls, name: str) -> Batches | None:
        match = _BATCHES.fullmatch(name)
        return cls(match[1], int(match[2]), int(match[3])) if match else None


class Attempt(NamedTuple):
    """One try to commit one batch; `attempt` is nobody else's."""

    query: str
    batch_id: int
    attempt: str

    @property
    def name(self) -> str:
        return f"{self.query}.{self.batch_id:019}.{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> Attempt | None:
        match = _STAGED.fullmatch(name)
        return cls(match[1], int(match[2]), match[3]) if match else None


def checked_query(query: str) -> str:
    if not _QUERY.fullmatch(query):
        raise PipelineRefused(f"{query!r} cannot name a query: up to 100 letters, digits, - and _")
    return query
