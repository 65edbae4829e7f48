"""The rows that a topic takes: Spark's Kafka sink's columns and types, and its words for all others."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.spark.core.option_values import OptionError

_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (_HEADERS,),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""By column; other columns are left out, as Kafka's sink does."""

NULL_TOPIC = (
    "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic. Use the `topic` "
    "option for setting a default topic."
)


def sink_columns(fields: Iterable[tuple[str, str]], *, topic: str | None, include_timestamp: bool) -> tuple[str, ...]:
    """Which of the columns, given as name and type, are written. OptionError for rows that no topic takes.

    The option `topic` wins over a column of that name.
    """
    given = dict(fields)
    wanted = [name for name in _TYPES if not (name == "topic" and topic is not None)]
    if not include_timestamp:
        wanted.remove("timestamp")
    if topic is None and "topic" not in given:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in given:
        raise OptionError("Required attribute 'value' not found")
    if include_timestamp and "timestamp" not in given:
        raise OptionError("includeTimestamp needs an attribute 'timestamp', and there is none")
    for name in wanted:
        if name in given and given[name] not in _TYPES[name]:
            raise OptionError(
                f"{name} attribute unsupported type {given[name]}. {name} must be a(n) {' or '.join(_TYPES[name])}"
            )
    return tuple(name for name in wanted if name in given)


def invalid_partition(partition: int, count: int) -> str:
    return f"Invalid partition given with record: {partition} is not in the range [0...{count})."


def too_large(size: int, limit: int) -> str:
    return (
        f"The message is {size} bytes when serialized which is larger than {limit}, which is the value of the "
        "max.request.size configuration."
    )
