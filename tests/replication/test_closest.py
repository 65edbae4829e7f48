"""Who serves a consumer in a given rack."""

from __future__ import annotations

from tests.replication.leader import Leader, state

from penstock.coordination.paths import PartitionState
from penstock.replication.core.closest import closest_replica, may_serve_reads
from penstock.replication.core.leadership import FollowerFetch

RACKS = {1: "a", 2: "b", 3: "b"}


def fetched(*offsets: int, isr: tuple[int, ...] = (1, 2, 3), log_start: int = 0) -> Leader:
    """Brokers 2 and 3 have come so far."""
    leader = Leader(state(*isr))
    for replica, offset in zip((2, 3), offsets, strict=True):
        leader.core.on_fetch(FollowerFetch(replica, 100 + replica, leader.core.leader_epoch, offset, -1, log_start), 0)
    return leader


def test_a_replica_in_the_consumers_rack_that_has_most() -> None:
    assert closest_replica(fetched(9, 10).core, "b", RACKS, 5) == 3
    assert closest_replica(fetched(10, 9).core, "b", RACKS, 5) == 2
    assert closest_replica(fetched(10, 10).core, "b", RACKS, 5) == 2


def test_the_leader_where_there_is_none_or_it_is_as_close() -> None:
    core = fetched(10, 10).core
    assert closest_replica(core, None, RACKS, 5) is None
    assert closest_replica(core, "", {1: "", 2: ""}, 5) is None
    assert closest_replica(core, "c", RACKS, 5) is None
    assert closest_replica(core, "b", {1: "b", 2: "b"}, 5) is None


def test_only_who_is_in_sync_alive_and_has_the_offset() -> None:
    assert closest_replica(fetched(9, 4, isr=(1, 3)).core, "b", RACKS, 4) == 3
    assert closest_replica(fetched(9, 4, isr=(1, 3)).core, "b", RACKS, 5) is None
    assert closest_replica(fetched(9, 10).core, "b", {1: "a", 2: "b"}, 5) == 2
    assert closest_replica(fetched(9, 10, log_start=6).core, "b", RACKS, 5) is None
    assert closest_replica(Leader(state(1, 2, 3)).core, "b", RACKS, 0) is None


def test_a_follower_out_of_sync_sends_consumers_back() -> None:
    recorded = PartitionState(leader=1, leader_epoch=0, isr=(1, 2), replicas=(1, 2, 3))
    assert [may_serve_reads(recorded, node) for node in (1, 2, 3, 4)] == [True, True, False, False]
