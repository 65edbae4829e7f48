"""A log that also takes what another replica has, and begins anew where that one says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tests.disk.crash import CrashingDisk
from tests.storage.batches import batch_of
from tests.storage.journaled_log import SETTINGS, JournaledLog
from tests.storage.log_model import Sent

from penstock.errors import PenstockError, Problem
from penstock.storage.journal import Journal
from penstock.storage.replica_append import append_replicated
from penstock.storage.restart import restart_at
from penstock.wire.batch import read_header, stamp
from penstock.wire.received_batches import received_batches


class ReplicaLog(JournaledLog):
    def __init__(self, number: int, disk: CrashingDisk, journal: Journal, cleanup_policy: str) -> None:
        super().__init__(number, disk, journal, dataclasses.replace(SETTINGS, cleanup_policy=cleanup_policy))

    def append(self, records: int, size: int, producer_id: int) -> None:
        """As the leader, in the epoch in which it leads."""
        self.epoch = max(self.epoch, self.log.latest_epoch or 0)
        super().append(records, size, producer_id)

    def lead_and_write_nothing(self, epochs: int) -> None:
        """What comes from another leader then may be of an older epoch."""
        self.log.begin_epoch(max(self.epoch, self.log.latest_epoch or 0) + epochs)

    def replicate(self, batches: list[tuple[int, int, int]], epochs: int, gaps: Sequence[int] = (0,)) -> None:
        """Several batches at once; the last of them begins `epochs` more. `gaps`: so many offsets are missing before

        them, in turns, where the leader's log is compacted or once was.
        """
        if self.failed:
            return
        data, sent = bytearray(), []
        offset = self.log.end_offset
        for place, (records, size, producer_id) in enumerate(batches):
            if place == len(batches) - 1:
                self.epoch += epochs
            if self.may_have_gaps:
                offset += gaps[place % len(gaps)]
            self.numbers += 1
            sequence = self.sequences.get(producer_id, -1) + 1 if producer_id >= 0 else -1
            batch = bytearray(
                batch_of(
                    *[b"%d" % self.numbers, *[b"x" * size] * (records - 1)],
                    timestamp_ms=self.now_ms,
                    producer_id=producer_id,
                    producer_epoch=0 if producer_id >= 0 else -1,
                    base_sequence=sequence,
                )
            )
            stamp(batch, offset, self.epoch)
            last_sequence = sequence + records - 1 if producer_id >= 0 else -1
            sent.append(Sent(offset, offset + records, bytes(batch), producer_id, last_sequence))
            if producer_id >= 0:
                self.sequences[producer_id] = last_sequence
            data += batch
            offset += records
        # From now on they may be found, even if the power fails before anybody is told.
        self.sent.update({each.base_offset: each for each in sent})
        try:
            append_replicated(self.log, memoryview(data), received_batches(memoryview(data)), self.now_ms)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            self.failed = self.log.failure is not None
        else:
            assert self.log.end_offset == offset
            for each in sent:
                assert self.log.epochs.epoch_of(each.base_offset) == read_header(each.content).leader_epoch
        self.sent = {base: each for base, each in self.sent.items() if base < self.log.end_offset}
        self.sequences = {entry.producer_id: entry.last_sequence for entry in self.log.producers()}

    def change_cleanup(self, cleanup_policy: str) -> None:
        self.settings = self.log.settings = dataclasses.replace(self.settings, cleanup_policy=cleanup_policy)
        self.may_have_gaps = self.may_have_gaps or "compact" in cleanup_policy

    def restart(self, offset: int) -> None:
        if self.failed:
            return
        # Until it returns it may be as it was, or empty there.
        self.must = 0
        self.possible_start = max(self.possible_start, offset)
        self.certain_start = min(self.certain_start, offset)
        try:
            restart_at(self.log, offset)
        except PenstockError as error:
            assert error.problem is Problem.STORAGE_FAILED
            self.failed = True
            return
        assert (self.log.start_offset, self.log.end_offset, self.log.durable_offset) == (offset, offset, offset)
        self.sent, self.sequences = {}, {}
        self.must = self.certain_start = self.possible_start = offset
        self.epoch += 1
