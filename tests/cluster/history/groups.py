"""Groups: commits stay, and a partition has one owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.cluster.history.events import Committed, CommittedSeen, Owned
from tests.cluster.history.history import Finding, History, TopicPartition, at

GroupPartition = tuple[str, TopicPartition]


def commit_went_back(history: History) -> Iterator[Finding]:
    """For each reader, who asks one question after another; and in the end nothing that was committed is missing.

    In between a coordinator that was cut off may answer from its past until it hears that others have its office.
    Members commit only forward, so no later commit explains a lower answer.
    """
    commits: defaultdict[GroupPartition, list[Committed]] = defaultdict(list)
    for committed in history.of(Committed):
        commits[committed.group, at(committed)].append(committed)
    last: dict[tuple[GroupPartition, str], CommittedSeen] = {}
    for seen in history.of(CommittedSeen):
        earlier = last.get(((seen.group, at(seen)), seen.reader), seen)
        if seen.offset < earlier.offset:
            text = f"{seen.reader} saw {earlier.offset} of {at(seen)} committed by {seen.group}, then {seen.offset}"
            yield Finding("committed offset went back", text, (earlier, seen))
        last[(seen.group, at(seen)), seen.reader] = seen
    for ((group, partition), reader), seen in last.items():
        before = [each for each in commits[group, partition] if each.at_ns < seen.asked_ns]
        highest = max(before, key=lambda each: each.offset, default=None)
        if highest is not None and seen.offset < highest.offset:
            text = f"{group} had {highest.offset} of {partition} committed, {reader} sees {seen.offset} in the end"
            yield Finding("committed offset went back", text, (highest, seen))


def two_owners(history: History) -> Iterator[Finding]:
    first: dict[tuple[str, TopicPartition, int], Owned] = {}
    for event in history.of(Owned):
        earlier = first.setdefault((event.group, at(event), event.generation), event)
        if earlier.member != event.member:
            text = f"{at(event)} of {event.group} in generation {event.generation}: {earlier.member} and {event.member}"
            yield Finding("two owners of a partition", text, (earlier, event))
