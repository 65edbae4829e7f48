"""What is missing in the usage of a cluster: gaps in what its nodes have written, by the rules of docs/usage.md."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise
from typing import NamedTuple


class Life(NamedTuple):
    """One run of a node, as far as its events are known."""

    node: int
    broker_epoch: int
    # From the beginning of its first event to the end of its last.
    from_ms: int
    to_ms: int
    # The first and the last event that are known say that they are that.
    has_first: bool
    has_last: bool
    gap_before: bool


class Hole(NamedTuple):
    """Sequences between two events of a life that are not there: from the end of one to the beginning of the other."""

    node: int
    broker_epoch: int
    from_ms: int
    to_ms: int
    events: int


class Why(Enum):
    KILLED = "the node ended without its last event"
    SILENT = "the node has written nothing since, and not that it stopped"
    HOLE = "events of this node are missing"
    NO_BEGINNING = "the first events of this run are missing"
    UNSEEN = "a run of the node before this one left no event"
    UNREADABLE = "records are no events"


class Gap(NamedTuple):
    """None where nobody knows: from when, until when, how many events are missing or unreadable."""

    node: int | None
    broker_epoch: int | None
    from_ms: int | None
    to_ms: int | None
    events: int | None
    why: Why


def find_gaps(lives: Iterable[Life], holes: Iterable[Hole], watermark_ms: int) -> list[Gap]:
    """`watermark_ms`: a node that has been silent since before it should have written something."""
    by_node: dict[int, list[Life]] = {}
    for life in sorted(lives):
        by_node.setdefault(life.node, []).append(life)
    gaps = [Gap(hole.node, hole.broker_epoch, hole.from_ms, hole.to_ms, hole.events, Why.HOLE) for hole in holes]
    for of_node in by_node.values():
        for before, after in pairwise(of_node):
            gaps += _between(before, after)
        first, last = of_node[0], of_node[-1]
        if first.gap_before:
            gaps.append(Gap(first.node, first.broker_epoch, None, first.from_ms, None, Why.UNSEEN))
        if not last.has_last and last.to_ms < watermark_ms:
            gaps.append(Gap(last.node, last.broker_epoch, last.to_ms, None, None, Why.SILENT))
        for life in of_node:
            if not life.has_first:
                gaps.append(Gap(life.node, life.broker_epoch, None, life.from_ms, None, Why.NO_BEGINNING))
    return sorted(gaps, key=_order)


def _between(before: Life, after: Life) -> list[Gap]:
    if not before.has_last:
        why = Why.KILLED
    elif after.gap_before:
        why = Why.UNSEEN
    else:
        return []
    return [Gap(before.node, before.broker_epoch, before.to_ms, after.from_ms, None, why)]


def _order(gap: Gap) -> tuple[int, ...]:
    known = (-1 if value is None else value for value in (gap.from_ms, gap.to_ms, gap.node, gap.broker_epoch))
    return (*known, list(Why).index(gap.why))
