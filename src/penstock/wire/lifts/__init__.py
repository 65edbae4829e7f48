"""The exceptions to lifting and lowering by field name, one file per API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.wire.lifts import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    consumer_group_heartbeat,
    delete_topics,
    describe_groups,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    join_group,
    leave_group,
    metadata,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from penstock.wire.lifts.lift import Lift

LIFTS: Mapping[int, Lift] = {
    lift.api_key: lift
    for lift in (
        add_offsets_to_txn.LIFT,
        add_partitions_to_txn.LIFT,
        api_versions.LIFT,
        consumer_group_heartbeat.LIFT,
        delete_topics.LIFT,
        describe_groups.LIFT,
        describe_transactions.LIFT,
        end_txn.LIFT,
        find_coordinator.LIFT,
        init_producer_id.LIFT,
        join_group.LIFT,
        leave_group.LIFT,
        metadata.LIFT,
        offset_commit.LIFT,
        offset_fetch.LIFT,
        txn_offset_commit.LIFT,
    )
}
