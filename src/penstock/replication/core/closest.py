"""Which replica a consumer should read from (KIP-392): one in its rack, if that is in sync and has what it wants."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.coordination.paths import PartitionState
from penstock.replication.core.leadership import Leadership


def closest_replica(
    leadership: Leadership, client_rack: str | None, racks: Mapping[int, str | None], fetch_offset: int
) -> int | None:
    """None: the leader itself. `racks` has the live brokers alone.

    Of several the one that has most; of equal ones the first replica, so that a consumer stays where it is.
    """
    state = leadership.recorded.state
    if not client_rack or racks.get(leadership.node_id) == client_rack:
        return None
    best, best_end = None, -1
    for replica in state.replicas:
        follower = leadership.follower(replica)
        if follower is None or replica not in state.isr or racks.get(replica) != client_rack:
            continue
        if follower.log_start <= fetch_offset <= follower.acknowledged_end and follower.acknowledged_end > best_end:
            best, best_end = replica, follower.acknowledged_end
    return best


def may_serve_reads(state: PartitionState, node_id: int) -> bool:
    """A follower that has left the ISR, as far as it knows, sends consumers back to the leader."""
    return node_id == state.leader or node_id in state.isr
