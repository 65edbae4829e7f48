"""What a replica shows to readers."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.log import Entry
from tests.simulation.network import OnAnswer
from tests.simulation.replica import OutOfRange, Replica

from penstock.errors import Problem
from penstock.replication.core.closest import may_serve_reads


class Consume(NamedTuple):
    offset: int
    leader_epoch: int


class Consumed(NamedTuple):
    entries: list[Entry]
    high_watermark: int
    leader_epoch: int


def consume(replica: Replica, request: Consume, reply: OnAnswer) -> None:
    leading, following, state = replica.leading, replica.following, replica.state
    if state is None or not may_serve_reads(state, replica.broker.name) or (leading is None and following is None):
        reply(Problem.NOT_LEADER)
        return
    epoch = state.leader_epoch
    if request.leader_epoch > epoch:
        reply(Problem.UNKNOWN_LEADER_EPOCH)
    elif request.offset < replica.log.start_offset or request.offset > replica.log.end_offset:
        reply(OutOfRange(replica.log.start_offset, replica.high_watermark))
    else:
        entries = (
            replica.log.read(request.offset, replica.high_watermark) if request.offset < replica.high_watermark else []
        )
        replica.broker.history.shows(replica.broker, request.offset, entries)
        reply(Consumed(entries, replica.high_watermark, epoch))


def latest(replica: Replica, leader_epoch: int, reply: OnAnswer) -> None:
    """ListOffsets."""
    leading = replica.leading
    if leading is None:
        reply(Problem.NOT_LEADER)
    elif leader_epoch > leading.leader_epoch:
        reply(Problem.UNKNOWN_LEADER_EPOCH)
    elif not leading.latest_is_known:
        reply(Problem.OFFSET_NOT_AVAILABLE)
    else:
        reply(Consumed([], leading.high_watermark, leading.leader_epoch))


def delete_records(replica: Replica) -> None:
    """Some or all of what is committed, at the leader; not what a producer may send again: none is kept so shortly."""
    kept = [entry.batches[0].base_offset for entry in replica.log.producers.entries()]
    most = min([replica.high_watermark, *kept])
    if replica.leading is not None and most > replica.log.start_offset:
        random = replica.network.random
        replica.log.move_start(random.choice((most, random.randint(replica.log.start_offset, most))))
