"""What a node says of itself when it is asked: for metrics and for /health."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.clock import Clock
from penstock.cluster.core.election import LogEnd
from penstock.cluster.replica_sizes import Held
from penstock.errors import Refused
from penstock.groups.coordinator import OFFSETS_TOPIC, Groups
from penstock.replication.core.replica_log import last_epoch
from penstock.replication.replicas import Replicas
from penstock.storage.journal import Journal
from penstock.telemetry.groups import GroupLag
from penstock.telemetry.storage import LogSize
from penstock.transactions.coordinator import TRANSACTIONS_TOPIC, Transactions
from penstock.units import SECOND_MS

# A full disk shows only when somebody writes, so one refusal counts until others had time to follow.
DISK_FULL_FOR_MS = 10 * SECOND_MS


def log_sizes(replicas: Replicas) -> Iterator[LogSize]:
    for partition in replicas:
        log = partition.log
        yield LogSize(partition.topic, partition.index, log.size_bytes, log.start_offset, log.end_offset)


def held(replicas: Replicas) -> Held:
    sizes = {(partition.topic, partition.index): partition.log.size_bytes for partition in replicas}
    return Held(sizes, replicas.disk_space().free_bytes)


class GroupLags:
    """Of partitions that are here, as they are when it is made; worked out when it is iterated, in any thread."""

    def __init__(self, groups: Groups, replicas: Replicas) -> None:
        self._committed = list(groups.committed())
        self._ends = {(partition.topic, partition.index): partition.high_watermark for partition in replicas}

    def __iter__(self) -> Iterator[GroupLag]:
        for group, topic, partitions in self._committed:
            for index, committed in partitions.items():
                end = self._ends.get((topic, index))
                if end is not None:
                    # An offset beyond the end, as an operator may set it, is no lag.
                    yield GroupLag(group, topic, index, max(0, end - committed.offset))


def failed_logs(replicas: Replicas) -> str | None:
    failed = [partition for partition in replicas if partition.log.failure is not None]
    if not failed:
        return None
    first = failed[0]
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return (
        f"no writes to {first.topic}-{first.index}{more}: {first.log.failure}. "
        "Reads go on. Check the disk, then restart this node"
    )


def failed_journal(journal: Journal) -> str | None:
    if journal.failure is None:
        return None
    return (
        f"the journal cannot be used: {journal.failure}. Nothing is lost, but every log syncs its own files, which is "
        "slower. Check the disk, then restart this node"
    )


def full_disk(replicas: Replicas, clock: Clock) -> str | None:
    full_ms = replicas.disk_full_ms
    if full_ms is None or clock.now_ms() - full_ms > DISK_FULL_FOR_MS:
        return None
    return (
        f"the disk with {replicas.directory} is full: writes are refused, reads go on. "
        "Free some space or lower retention.ms; writes go on by themselves when there is room"
    )


def unavailable_groups(groups: Groups) -> str | None:
    refusals = groups.unavailable()
    if not refusals:
        return None
    return (
        f"the groups of {len(refusals)} partitions of {OFFSETS_TOPIC} are not served: {refusals[0].text}. "
        "This ends by itself unless the reason stays"
    )


def unavailable_transactions(transactions: Transactions) -> str | None:
    refusals = transactions.unavailable()
    if not refusals:
        return None
    return (
        f"the transactions of {len(refusals)} partitions of {TRANSACTIONS_TOPIC} are not served: {refusals[0].text}. "
        "This ends by itself unless the reason stays"
    )


def log_ends(replicas: Replicas) -> Callable[[str, int], LogEnd | None]:
    """Of this broker's replicas, for a controller that looks for the one that has most."""

    def find(topic: str, partition: int) -> LogEnd | None:
        found = replicas.find(topic, partition)
        if isinstance(found, Refused) or not replicas.roles.stand_still(found):
            return None
        return LogEnd(last_epoch(found.log), found.log.end_offset)

    return find
