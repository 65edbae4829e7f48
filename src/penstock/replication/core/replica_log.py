"""What the replication protocol asks of a log, and where two logs part."""

from __future__ import annotations

from typing import Protocol

from penstock.errors import Problem, Refused
from penstock.storage.core.leader_epochs import UNDEFINED, EpochEnd, LeaderEpochs


class ReplicaLog(Protocol):
    """A log as it is now; `storage.log.Log` is one."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def durable_offset(self) -> int:
        """Everything below survives a power cut."""

    @property
    def epochs(self) -> LeaderEpochs: ...


def last_epoch(log: ReplicaLog) -> int:
    """Of the last record, not the last that began: one in which nothing was written tells nothing of what is there."""
    return log.epochs.epoch_of(log.end_offset - 1) if log.end_offset > log.start_offset else UNDEFINED


def divergence(log: ReplicaLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | Refused | None:
    """None: whoever fetches has what `log` has below `fetch_offset`, from the start of `log` on.

    Otherwise the largest epoch not beyond its last one and where that ends here (KIP-320, KIP-595): beyond that it is
    wrong. Refused when the offset lies outside of what is here. `log` must have begun the epoch of its leader, so that
    no follower knows a later one.
    """
    if fetch_offset < log.start_offset:
        return _out_of_range(log, fetch_offset)
    if last_fetched_epoch == UNDEFINED:
        return _out_of_range(log, fetch_offset) if fetch_offset > log.end_offset else None
    end = log.epochs.end_offset_of(last_fetched_epoch, log.end_offset)
    if end.end_offset == UNDEFINED:
        return _out_of_range(log, fetch_offset)
    if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def _out_of_range(log: ReplicaLog, offset: int) -> Refused:
    text = f"offset {offset} is not between {log.start_offset} and {log.end_offset}, or its epoch is not known"
    return Refused(Problem.OFFSET_OUT_OF_RANGE, text)
