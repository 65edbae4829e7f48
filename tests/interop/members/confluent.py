"""A group member with confluent-kafka; also the only one here that speaks KIP-848."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.interop.members.line_protocol import (
    membership,
    say_assigned,
    say_error,
    say_record,
    say_revoked,
    until_input_ends,
)
from tests.interop.membership import Membership


def settings(given: Membership) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "group.protocol": given.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        # Regular expressions are matched against metadata that is asked for this often.
        "topic.metadata.refresh.interval.ms": 500,
    }
    if given.instance_id:
        chosen["group.instance.id"] = given.instance_id
    if given.protocol == "consumer":
        # The session is the broker's to choose there, and so are the assignors it offers.
        if given.assignor:
            chosen["group.remote.assignor"] = given.assignor
        return chosen
    chosen["session.timeout.ms"] = given.session_timeout_ms
    chosen["heartbeat.interval.ms"] = 100
    if given.assignor:
        chosen["partition.assignment.strategy"] = given.assignor
    return chosen


def main() -> None:
    given = membership()
    ended = until_input_ends()
    consumer = Consumer({**settings(given), "error_cb": lambda error: say_error(error.code(), error.str())})
    gradual = given.protocol == "consumer" or given.assignor == "cooperative-sticky"

    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if gradual:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        say_assigned(consumer.assignment())

    def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if gradual:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        say_revoked(partitions)

    consumer.subscribe(list(given.topics), on_assign=assigned, on_revoke=revoked)
    while not ended.is_set():
        message = consumer.poll(0.05)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            say_error(error.code(), error.str())
            if error.fatal():
                break
            continue
        value = message.value()
        say_record(value.encode() if isinstance(value, str) else value)
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as refused:
            say_error(refused.args[0].code(), refused.args[0].str())
    consumer.close()


main()
