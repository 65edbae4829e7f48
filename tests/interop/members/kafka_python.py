"""A group member with kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer  # type: ignore[import-untyped]
from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
    CooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]
from tests.interop.members.line_protocol import (
    membership,
    say_assigned,
    say_error,
    say_record,
    say_revoked,
    until_input_ends,
)

_ASSIGNORS = {None: RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


# A poll that ends while the group is forming makes kafka-python 3.0.12 forget the assignment that comes behind it,
# so polls must be longer than any rebalance here.
_POLL_MS = 1500


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Any) -> None:
        say_assigned(self._consumer.assignment())

    def on_partitions_revoked(self, revoked: Any) -> None:
        say_revoked(revoked)


def main() -> None:
    given = membership()
    ended = until_input_ends()
    consumer = KafkaConsumer(
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        group_instance_id=given.instance_id,
        partition_assignment_strategy=[_ASSIGNORS[given.assignor]],
        session_timeout_ms=given.session_timeout_ms,
        heartbeat_interval_ms=100,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )
    consumer.subscribe(list(given.topics), listener=_Listener(consumer))
    while not ended.is_set():
        batches = consumer.poll(timeout_ms=_POLL_MS)
        for batch in batches.values():
            for message in batch:
                say_record(message.value)
        try:
            if batches:
                consumer.commit()
        except KafkaError as refused:
            say_error(refused.errno, str(refused))
    consumer.close()


main()
