"""What aiokafka took over from kafka-python: the names of options and of a message's parts."""

from __future__ import annotations

from typing import Any

from tests.interop.record import Record

READ_TIMEOUT_S = 15.0


def producer_options(bootstrap: str, codec: str, acks: str, idempotent: bool) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "compression_type": None if codec == "none" else codec,
        "acks": "all" if acks == "all" else int(acks),
        "enable_idempotence": idempotent,
        "linger_ms": 20,
        "max_request_size": 10_000_000,
    }


def consumer_options(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 200,
        "fetch_max_wait_ms": 100,
    }


def sent(record: Record) -> dict[str, Any]:
    """The arguments of `send`."""
    return {
        "value": record.value,
        "key": record.key,
        "headers": list(record.headers),
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
    }


def received(message: Any) -> Record:
    return Record(
        value=message.value,
        key=message.key,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )
