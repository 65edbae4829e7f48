"""Where a reader can start: offsets by what they mean."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.partition import Partition

# Kafka's numbers in the place of a timestamp.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class Position(NamedTuple):
    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


# Also the answer for what is never the case here: nothing is kept in remote storage.
NOWHERE = Position(-1)
_NOT_KNOWN = Refused(
    Problem.OFFSET_NOT_AVAILABLE, "the partition has a new leader, which does not know yet what is committed"
)


async def find_offset(
    partition: Partition, timestamp: int, pool: ThreadPoolExecutor, *, reads_committed: bool = False
) -> Position | Refused:
    """`reads_committed`: for a reader that sees only what belongs to no transaction or to a committed one."""
    log = partition.log
    match timestamp:
        case _ if timestamp == LATEST:
            if not _latest_is_known(partition):
                return _NOT_KNOWN
            return Position(_readable_end(partition, reads_committed), leader_epoch=partition.leader_epoch)
        case _ if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return Position(log.start_offset, leader_epoch=log.epochs.epoch_of(log.start_offset))
        case _ if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return NOWHERE
        case _ if timestamp < MAX_TIMESTAMP:
            return Refused(Problem.INVALID_REQUEST, f"{timestamp} is neither a timestamp nor one of Kafka's marks")
    search = log.max_timestamp if timestamp == MAX_TIMESTAMP else partial(log.offset_for_timestamp, timestamp)
    try:
        found = await asyncio.get_running_loop().run_in_executor(pool, search)
    except PenstockError as error:
        return Refused.by(error)
    if found is None or found.offset >= _readable_end(partition, reads_committed):
        return NOWHERE if _latest_is_known(partition) else _NOT_KNOWN
    return Position(found.offset, found.timestamp_ms, found.leader_epoch)


def _readable_end(partition: Partition, reads_committed: bool) -> int:
    return partition.last_stable_offset if reads_committed else partition.high_watermark


def _latest_is_known(partition: Partition) -> bool:
    return partition.leadership is not None and partition.leadership.latest_is_known
