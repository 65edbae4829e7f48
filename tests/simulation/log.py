"""A replica's log in memory: what is written, what is durable, and what a power cut leaves of it."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from penstock.storage.core.leader_epochs import LeaderEpochs
from penstock.storage.core.producer_state import ProducedBatch, ProducerStates
from penstock.wire.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader


class Value(NamedTuple):
    """A record that somebody sent, in a batch of its own."""

    name: str
    header: BatchHeader


class Entry(NamedTuple):
    epoch: int
    value: Value


def plain(name: str) -> Value:
    return _value(name, NO_PRODUCER_ID, NO_SEQUENCE)


def numbered(name: str, producer_id: int, sequence: int) -> Value:
    """Of an idempotent producer."""
    return _value(name, producer_id, sequence)


def _value(name: str, producer_id: int, sequence: int) -> Value:
    return Value(name, BatchHeader(0, 61, 0, 2, 0, 0, 0, 0, 0, producer_id, 0, sequence, 1))


class SimulatedLog:
    """Keeps the contract of storage.log.Log where replication relies on it. Truncation is durable at once."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        # A sync that was begun before one of them says nothing of what was written since.
        self.truncations = 0
        # The entry at `start_offset` comes first.
        self.entries: list[Entry] = []
        # Of deleted records: what a snapshot would keep of their producers.
        self._deleted: list[Entry] = []

    def entry(self, offset: int) -> Entry:
        return self.entries[offset - self.start_offset]

    def read(self, offset: int, upto: int) -> list[Entry]:
        return self.entries[offset - self.start_offset : upto - self.start_offset]

    def begin_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.end_offset)

    def append(self, epoch: int, value: Value) -> ProducedBatch | None:
        """As a leader: the batch of which this is a repetition, if it is one. Raises PenstockError."""
        header = value.header
        if header.producer_id >= 0 and (before := self.producers.check(header)) is not None:
            return before
        self.add(Entry(epoch, value))
        return None

    def add(self, entry: Entry) -> None:
        """As a follower: as the leader has it."""
        epochs = self.epochs
        if entry.epoch != epochs.latest:
            epochs.assign(entry.epoch, self.end_offset)
        self.entries.append(entry)
        header = entry.value.header
        if header.producer_id >= 0:
            self.producers.record(header._replace(leader_epoch=entry.epoch), self.end_offset, 0, 0)
        self.end_offset += 1

    def sync(self, upto: int) -> None:
        self.durable_offset = max(self.durable_offset, min(upto, self.end_offset))

    def truncate(self, offset: int) -> None:
        offset = max(offset, self.start_offset)
        if offset < self.end_offset:
            del self.entries[offset - self.start_offset :]
            self.end_offset = offset
            self.epochs.cut_end(offset)
            self._rebuild_producers()
        self.truncations += 1
        self.durable_offset = self.end_offset

    def restart_at(self, offset: int) -> None:
        self.truncations += 1
        self.entries = []
        self._deleted = []
        self.start_offset = self.end_offset = self.durable_offset = offset
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()

    def move_start(self, offset: int) -> None:
        if offset > self.start_offset:
            self._deleted += self.entries[: offset - self.start_offset]
            del self.entries[: offset - self.start_offset]
            self.start_offset = offset
            # The start itself is written down durably before it moves.
            self.durable_offset = max(self.durable_offset, offset)
            self.epochs.cut_start(offset)

    def recover(self, random: Random | None) -> None:
        """Opened again. After a power cut (`random`) any part of what was not synced is left, on the disk for good.

        The epochs are those of the records: one that began without a record is forgotten.
        """
        if random is not None and self.durable_offset < self.end_offset:
            kept = random.randint(self.durable_offset, self.end_offset)
            del self.entries[kept - self.start_offset :]
            self.end_offset = self.durable_offset = kept
        self.epochs = LeaderEpochs()
        for place, entry in enumerate(self.entries):
            self.epochs.assign(entry.epoch, self.start_offset + place)
        self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        self.producers = ProducerStates()
        first = self.start_offset - len(self._deleted)
        for place, entry in enumerate((*self._deleted, *self.entries), first):
            header = entry.value.header
            if header.producer_id >= 0:
                self.producers.record(header._replace(leader_epoch=entry.epoch), place, 0, 0)
