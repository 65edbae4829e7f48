"""What every table can do. The unit is the batch of a query: it is in the table as a whole, once, or not at all.

The walk of a batch:

1. the driver makes a stage (`stage`) under a name that is this attempt's alone;
2. tasks write files into it and sync them; only what successful tasks tell of counts;
3. the driver calls `commit`. It asks the ledger, moves the files out of the stage, and then takes one atomic step (the
   format's own) that shows the files and the new ledger together.

Whoever dies before that step leaves a stage, or files that nothing refers to; the batch comes again, from another
attempt. Whoever dies after it finds the batch in the ledger. Two drivers with the same batch: both take the step, the
format lets one through, and the other finds the batch in the ledger. A step that failed is never repeated blindly:
the ledger is asked first. Two queries with the same offsets, which is somebody's mistake: the second is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.pipelines.core.ledger import Ledger, Range
from penstock.pipelines.core.names import Attempt
from penstock.units import MIB

# Larger files are left alone: merging them costs more than readers gain.
SMALL_BYTES = 32 * MIB


class WrittenFile(NamedTuple):
    """A whole Parquet file in a stage, durable, with rows of one hour."""

    name: str
    hour: str
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class Batch:
    attempt: Attempt
    files: Sequence[WrittenFile]
    ranges: Sequence[Range]
    # Of which topics, by name; those whose id nobody knows are not compared.
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class Outcome(Enum):
    COMMITTED = "committed"
    # The batch was in the table before, by whomever; what this attempt wrote is not.
    ALREADY = "already"


class Compacted(NamedTuple):
    files_before: int
    files_after: int


class Table(Protocol):
    def ledgers(self) -> Mapping[str, Ledger]:
        """Of every query that ever committed to it."""

    def stage(self, attempt: Attempt) -> str:
        """A new directory for the files of this attempt, where every task can reach it."""

    def commit(self, batch: Batch) -> Outcome:
        """Raises PipelineRefused if the batch must not be in the table, OSError if the disk refuses.

        After an error the attempt is over; the batch may come again, in another.
        """

    def abandon(self, attempt: Attempt) -> None:
        """What this attempt has staged, if anything."""

    def discard(self, query: str) -> None:
        """What earlier attempts of the query left. One that still runs will fail, and changes nothing."""

    def files(self) -> list[str]:
        """Paths of all Parquet files that make up the table now: whole batches, every row once."""

    def compact(self) -> Compacted:
        """Small files become larger ones. No row and no ledger changes; committing goes on beside it."""
