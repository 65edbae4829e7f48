"""Transactions: all of one is there or nothing of it, each input has one output, and nothing shows before its time.

As readers of committed records saw it. What must be there in the end is said of groups that have drained their topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.cluster.history.events import (
    Acked,
    CommitBegun,
    Drained,
    Event,
    Read,
    Sent,
    TransactionEnded,
    value_name,
)
from tests.cluster.history.history import Finding, History, at

# What a finding shows of a large transaction
_MOST_SHOWN = 3


class Transactions:
    """What producers did and were told."""

    def __init__(self, history: History) -> None:
        self.sent = {value_name(sent.producer, sent.number): sent for sent in history.of(Sent) if sent.transaction}
        self.begun = {begun.transaction: begun for begun in history.of(CommitBegun)}
        self._ended = {ended.transaction: ended for ended in history.of(TransactionEnded)}

    def committed(self, transaction: str) -> TransactionEnded | None:
        ended = self._ended.get(transaction)
        return ended if ended is not None and ended.committed else None

    def aborted(self, transaction: str) -> bool:
        """Nobody may say so: a producer that died before it began to commit."""
        ended = self._ended.get(transaction)
        return transaction not in self.begun if ended is None else not ended.committed

    def told(self, transaction: str) -> tuple[Event, ...]:
        found = (self.begun.get(transaction), self._ended.get(transaction))
        return tuple(event for event in found if event is not None)


class Shown(dict[str, Read]):
    """By value: all that a group has read of the topics that it has drained."""

    def __init__(self, history: History, group: str) -> None:
        self.topics = {drained.topic for drained in history.of(Drained) if drained.group == group}
        super().__init__(
            (read.value, read) for read in history.of(Read) if read.group == group and read.topic in self.topics
        )


def _shown(history: History) -> Iterator[tuple[str, Shown]]:
    for group in sorted({drained.group for drained in history.of(Drained)}):
        yield group, Shown(history, group)


def lost(history: History) -> Iterator[Finding]:
    """Every value of a committed transaction is shown."""
    known = Transactions(history)
    for group, shown in _shown(history):
        for value, sent in known.sent.items():
            if sent.topic in shown.topics and value not in shown and known.committed(sent.transaction):
                text = f"{value} of {sent.transaction} in {at(sent)} was committed, and {group} never got it"
                yield Finding("committed value lost", text, (sent, *known.told(sent.transaction)))


def input_lost(history: History) -> Iterator[Finding]:
    """What is in a topic that was transformed, and that the transforming group has drained, has an output."""
    known = Transactions(history)
    results = {sent.topic for sent in known.sent.values() if sent.source}
    inputs = _inputs(history, known)
    for group, shown in _shown(history):
        if not shown.topics & results:
            continue
        done = {known.sent[value].source for value in shown if value in known.sent}
        for value, event in inputs.items():
            if value not in done:
                text = f"nothing that {group} got was made of {value} in {at(event)}"
                yield Finding("input lost", text, (event,))


def _inputs(history: History, known: Transactions) -> dict[str, Acked | Read]:
    """Acknowledged or read: what is neither need not be there."""
    sources = {sent.source for sent in known.sent.values()}
    sent = (event for event in history.of(Sent) if value_name(event.producer, event.number) in sources)
    topics = {event.topic for event in sent} & {drained.topic for drained in history.of(Drained)}
    found: dict[str, Acked | Read] = {read.value: read for read in history.of(Read) if read.topic in topics}
    for acked in history.of(Acked):
        if acked.topic in topics:
            found[value_name(acked.producer, acked.number)] = acked
    return found


def aborted_read(history: History) -> Iterator[Finding]:
    known = Transactions(history)
    for read, sent in _committed_reads(history, known):
        if known.aborted(sent.transaction):
            text = f"{read.reader} got {read.value} of {sent.transaction}, which was aborted"
            yield Finding("aborted value read", text, (sent, *known.told(sent.transaction), read))


def torn(history: History) -> Iterator[Finding]:
    """Whatever became of a transaction, it became of all its values."""
    known = Transactions(history)
    values: defaultdict[str, list[str]] = defaultdict(list)
    for value, sent in known.sent.items():
        values[sent.transaction].append(value)
    for group, shown in _shown(history):
        for transaction, all_values in values.items():
            there = [value for value in all_values if value in shown]
            gone = [v for v in all_values if v not in shown and known.sent[v].topic in shown.topics]
            if there and gone:
                text = f"{group} got {len(there)} values of {transaction}, and {len(gone)} not: {gone[:_MOST_SHOWN]}"
                events = (*(known.sent[value] for value in gone[:_MOST_SHOWN]), *known.told(transaction))
                yield Finding("torn transaction", text, (*events, shown[there[0]]))


def done_twice(history: History) -> Iterator[Finding]:
    """Two outputs of one input. One output at two offsets is doubled, see values.py."""
    known = Transactions(history)
    first: dict[str, Read] = {}
    told: set[str] = set()
    for read, sent in _committed_reads(history, known):
        if not sent.source or sent.source in told:
            continue
        earlier = first.setdefault(sent.source, read)
        if earlier.value != read.value:
            told.add(sent.source)
            text = f"{earlier.value} and {read.value} were made of {sent.source}"
            both = (known.sent[earlier.value], earlier, sent, read)
            yield Finding("input done twice", text, both)


def precommitted(history: History) -> Iterator[Finding]:
    known = Transactions(history)
    for read, sent in _committed_reads(history, known):
        begun = known.begun.get(sent.transaction)
        if begun is not None and read.at_ns < begun.at_ns:
            text = f"{read.reader} got {read.value} before the commit of {sent.transaction} was begun"
            yield Finding("precommitted value read", text, (sent, read, begun))


def _committed_reads(history: History, known: Transactions) -> Iterator[tuple[Read, Sent]]:
    for read in history.of(Read):
        if read.committed_only and (sent := known.sent.get(read.value)) is not None:
            yield read, sent
