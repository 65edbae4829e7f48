"""The exceptions to lifting and lowering by field name, one file per API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.wire.lifts import (
    consumer_group_heartbeat,
    delete_topics,
    describe_groups,
    find_coordinator,
    init_producer_id,
    join_group,
    leave_group,
    metadata,
    offset_commit,
    offset_fetch,
)
from penstock.wire.lifts.lift import Lift

LIFTS: Mapping[int, Lift] = {
    lift.api_key: lift
    for lift in (
        consumer_group_heartbeat.LIFT,
        delete_topics.LIFT,
        describe_groups.LIFT,
        find_coordinator.LIFT,
        init_producer_id.LIFT,
        join_group.LIFT,
        leave_group.LIFT,
        metadata.LIFT,
        offset_commit.LIFT,
        offset_fetch.LIFT,
    )
}
