"""Ending a producer's transaction in a partition that this broker leads, and asking whether one is open."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused
from penstock.replication.partition import NOT_LEADING, Partition
from penstock.replication.replicas import Replicas
from penstock.replication.waiters import HANDING_OVER
from penstock.storage.log import Appended
from penstock.wire.batch import read_header
from penstock.wire.control import Marker, build_marker


def append_marker(
    replicas: Replicas,
    partition: Partition,
    producer_id: int,
    epoch: int,
    coordinator_epoch: int,
    *,
    commit: bool,
    version: int,
    now_ms: int,
) -> Appended | Refused:
    """As with acks=all: it counts when `Partition.when_committed` says so.

    `version`: of the transaction. With 2 the marker has the epoch behind that of its transaction, which from then on is
    over in this log; with 1 the same, or a later one if the producer is fenced off. A marker that comes again is
    appended again and ends nothing: that of an earlier leader may have got lost, and only what is committed here says
    that this broker leads still. Refused: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED for one that is late.
    """
    if partition.leadership is None:
        return NOT_LEADING
    if partition.hand_over.under_way is not None:
        return HANDING_OVER
    try:
        partition.log.producer_states.check_marker(producer_id, epoch, coordinator_epoch, version)
    except PenstockError as error:
        return Refused.by(error)
    batch = memoryview(build_marker(producer_id, epoch, Marker(commit, coordinator_epoch), now_ms))
    return replicas.append_own(partition, batch, read_header(batch))


def has_open_transaction(partition: Partition, producer_id: int, epoch: int) -> bool:
    """As far as this replica's log goes: what its producer sends in it needs no word of the coordinator."""
    return partition.log.producer_states.has_open_transaction(producer_id, epoch)
