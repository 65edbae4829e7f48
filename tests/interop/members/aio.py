"""A group member with aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from tests.interop.members.line_protocol import (
    membership,
    say_assigned,
    say_error,
    say_record,
    say_revoked,
    until_input_ends,
)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: Any) -> None:
        say_assigned(assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        say_revoked(revoked)


async def main() -> None:
    given = membership()
    ended = until_input_ends()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        group_instance_id=given.instance_id,
        session_timeout_ms=given.session_timeout_ms,
        heartbeat_interval_ms=100,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )
    consumer.subscribe(list(given.topics), listener=_Listener())
    await consumer.start()
    while not ended.is_set():
        batches = await consumer.getmany(timeout_ms=50)
        for batch in batches.values():
            for message in batch:
                say_record(message.value)
        try:
            if batches:
                await consumer.commit()
        except KafkaError as refused:
            say_error(getattr(refused, "errno", -1), str(refused))
    await consumer.stop()


asyncio.run(main())
