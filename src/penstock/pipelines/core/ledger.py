"""What a query has put into a table: its last batch, and which offsets of which partitions are in it.

A ledger is stored by the same atomic step that shows a batch's files. So asking it is enough to know whether a batch is
in the table, also after snapshots, old manifests and transaction logs have been cleaned away. Ranges that follow on
each other are one, so it does not grow with the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from penstock.pipelines.core.refusal import PipelineRefused

_NO_IDS: Mapping[str, str] = MappingProxyType({})


class Range(NamedTuple):
    """Offsets from `start` up to, but without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class Ledger(msgspec.Struct, frozen=True):
    batch_id: int
    # Whose files won: an attempt that does not know how its commit ended finds itself here, or another.
    attempt: str
    # In order, apart from each other.
    ranges: tuple[Range, ...] = ()
    # Of which topics these are offsets, by name: one that is created anew has other records at the same offsets.
    topic_ids: dict[str, str] = {}

    @classmethod
    def decode(cls, text: str | bytes, where: str) -> Ledger:
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise PipelineRefused(f"the ledger in {where} cannot be read ({error}): restore it, or the table") from None

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class Standing(Enum):
    """How a table stands to an attempt at a batch."""

    MISSING = "the batch is not in the table"
    OURS = "it is, by this attempt"
    TAKEN = "it is, by another attempt, so this one never will be"
    PASSED = "it is, and so are later ones: nobody can tell by whose attempt"


def standing(ledger: Ledger | None, batch_id: int, attempt: str) -> Standing:
    if ledger is None or ledger.batch_id < batch_id:
        return Standing.MISSING
    if ledger.batch_id > batch_id:
        return Standing.PASSED
    return Standing.OURS if ledger.attempt == attempt else Standing.TAKEN


def settled(
    ledger: Ledger | None,
    batch_id: int,
    attempt: str,
    ranges: Iterable[Range],
    topic_ids: Mapping[str, str] = _NO_IDS,
) -> Ledger:
    """The ledger with a batch that is missing in it.

    Raises PipelineRefused if offsets of the batch are in the table by an earlier one: to go on would double them. And
    if they are of another topic of the same name.
    """
    if ledger is None:
        return Ledger(batch_id, attempt, _joined(ranges), dict(topic_ids))
    _check_topics(ledger, topic_ids)
    return Ledger(batch_id, attempt, _joined((*ledger.ranges, *ranges)), {**ledger.topic_ids, **topic_ids})


def check_apart(others: Iterable[Ledger], ranges: Iterable[Range], topic_ids: Mapping[str, str] = _NO_IDS) -> None:
    """Raises PipelineRefused if another query has put some of these offsets into the table, or of another topic of

    the same name: a query that goes on where the table ends would pass over what this one has before that.
    """
    added = tuple(ranges)
    partitions = {found[:2] for found in added}
    for ledger in others:
        _check_topics(ledger, topic_ids)
        _joined((*(found for found in ledger.ranges if found[:2] in partitions), *added))


def ends(ledgers: Iterable[Ledger]) -> dict[tuple[str, int], int]:
    """Where all these queries together have got to, by topic and partition."""
    found: dict[tuple[str, int], int] = {}
    for ledger in ledgers:
        for topic, partition, _, end in ledger.ranges:
            found[topic, partition] = max(end, found.get((topic, partition), 0))
    return found


def _check_topics(ledger: Ledger, topic_ids: Mapping[str, str]) -> None:
    for topic, topic_id in topic_ids.items():
        if (known := ledger.topic_ids.get(topic, topic_id)) != topic_id:
            raise PipelineRefused(
                f"the table has records of a topic {topic} that was deleted since: its id was {known}, and that of the "
                f"topic by this name is {topic_id}. Archive it into another table"
            )


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    joined: list[Range] = []
    for found in sorted(ranges):
        if found.start >= found.end:
            continue
        last = joined[-1] if joined else None
        if last is None or last[:2] != found[:2] or last.end < found.start:
            joined.append(found)
        elif last.end == found.start:
            joined[-1] = last._replace(end=found.end)
        else:
            raise PipelineRefused(
                f"offsets {found.start} to {min(last.end, found.end) - 1} of {found.topic}-{found.partition} are in "
                "the table already: go on with the checkpoint that wrote them, or archive into another table"
            )
    return tuple(joined)
