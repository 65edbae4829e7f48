"""Groups: commits stay, and a partition has one owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.cluster.history.events import Committed, CommittedSeen, Owned
from tests.cluster.history.history import Finding, History, TopicPartition, at

GroupPartition = tuple[str, TopicPartition]


def commit_went_back(history: History) -> Iterator[Finding]:
    """Members commit only forward, so what was committed when somebody asked is a lower bound of the answer."""
    commits: defaultdict[GroupPartition, list[Committed | CommittedSeen]] = defaultdict(list)
    for committed in history.of(Committed):
        commits[committed.group, at(committed)].append(committed)
    for seen in history.of(CommittedSeen):
        commits[seen.group, at(seen)].append(seen)
    for (group, partition), events in commits.items():
        # What had been answered by then, highest first: the answers in order of time, walked beside the questions.
        answers = sorted(events, key=lambda event: event.at_ns)
        highest: Committed | CommittedSeen | None = None
        position = 0
        asked = [event for event in events if isinstance(event, CommittedSeen)]
        for seen in sorted(asked, key=lambda event: event.asked_ns):
            while position < len(answers) and answers[position].at_ns < seen.asked_ns:
                if highest is None or answers[position].offset > highest.offset:
                    highest = answers[position]
                position += 1
            if highest is not None and seen.offset < highest.offset:
                text = f"{group} had {highest.offset} of {partition} committed, later it is {seen.offset}"
                yield Finding("committed offset went back", text, (highest, seen))


def two_owners(history: History) -> Iterator[Finding]:
    first: dict[tuple[str, TopicPartition, int], Owned] = {}
    for event in history.of(Owned):
        earlier = first.setdefault((event.group, at(event), event.generation), event)
        if earlier.member != event.member:
            text = f"{at(event)} of {event.group} in generation {event.generation}: {earlier.member} and {event.member}"
            yield Finding("two owners of a partition", text, (earlier, event))
