"""What a writer is asked for: the options of Spark's Kafka sink, with its defaults, and what it would refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.core.bootstrap import bootstrap_of
from penstock.spark.core.option_values import OptionError, OptionValues
from penstock.spark.core.security import Security
from penstock.spark.core.security_options import SECURITY_OPTIONS, security_of
from penstock.units import KIB, MIB, MINUTE_MS, SECOND_MS
from penstock.wire import compression

_OPTIONS = (
    "topic",
    "delivery",
    "txnAppId",
    "txnVersion",
    "includeTimestamp",
    # Spark's own, which it hands on to every sink.
    "checkpointLocation",
)
_KAFKA_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.buffer.memory",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.max.request.size",
    "kafka.request.timeout.ms",
    "kafka.transaction.timeout.ms",
)
# Settings of Kafka's producer that change nothing here: a task has all its rows at hand and waits for the last answer
# before it ends. Jobs that set them must run all the same.
_WITHOUT_EFFECT = tuple(
    "kafka." + name
    for name in (
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.provider",
    )
)
_REFUSED = {
    "kafka.key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer."
    ),
    "kafka.value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
    "kafka.transactional.id": (
        "Kafka option 'transactional.id' is not supported: every task writes in a transaction of its own if the option "
        "'delivery' is 'exactly-once'"
    ),
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
    "kafka.partitioner.class": (
        "Kafka option 'partitioner.class' is not supported: choose partitions by a column 'partition'"
    ),
    "subscribe": "Option 'subscribe' is for reading: set 'topic' to write to a topic",
    "path": "A topic has no path: save() and start() take none, set the option 'topic' instead",
}
_KNOWN = (*_OPTIONS, *_KAFKA_OPTIONS, *SECURITY_OPTIONS, *_WITHOUT_EFFECT)

_COMPRESSIONS = {
    "none": compression.NONE,
    "gzip": compression.GZIP,
    "snappy": compression.SNAPPY,
    "lz4": compression.LZ4,
    "zstd": compression.ZSTD,
}
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 1}
EXACTLY_ONCE = "exactly-once"
_DELIVERIES = ("at-least-once", EXACTLY_ONCE)
# With the name of a topic it is the name of a query.
_MOST_CHARACTERS = 250
# Larger batches are stored and read with less work for each record. Kafka's 16 KiB is a compromise with waiting.
_BATCH_BYTES = 256 * KIB


@dataclass(frozen=True, slots=True)
class Version:
    """A batch that its writer numbers itself (`txnAppId`, `txnVersion`): written once, however often it is tried."""

    application: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Plain and picklable. `warnings` are for whoever asked, once."""

    bootstrap: tuple[str, ...]
    client_id: str
    security: Security | None
    request_timeout_ms: int
    delivery_timeout_ms: int
    topic: str | None
    exactly_once: bool
    version: Version | None
    include_timestamp: bool
    acks: int
    idempotent: bool
    compression: int
    batch_bytes: int
    buffer_bytes: int
    max_request_bytes: int
    transaction_timeout_ms: int
    warnings: tuple[str, ...]


def batch_sink_options(options: Mapping[str, str]) -> SinkOptions:
    values = OptionValues(options, _KNOWN, _REFUSED)
    application, number = values.text("txnAppId"), values.integer("txnVersion", at_least=0)
    if (application is None) != (number is None):
        raise OptionError("txnAppId and txnVersion belong together: set both")
    version = None
    if application is not None and number is not None:
        if not 0 < len(application) <= _MOST_CHARACTERS:
            raise OptionError(f"txnAppId must have 1 to {_MOST_CHARACTERS} characters")
        if not _is_exactly_once(values):
            raise OptionError("txnAppId and txnVersion need the option 'delivery' to be 'exactly-once'")
        version = Version(application, number)
    return _read(values, version)


def stream_sink_options(options: Mapping[str, str]) -> SinkOptions:
    values = OptionValues(options, _KNOWN, _REFUSED)
    for name in ("txnAppId", "txnVersion"):
        if name in values:
            raise OptionError(
                f"{name} is for writes in foreachBatch: a streaming query has its own id and batch numbers"
            )
    return _read(values, None)


def _is_exactly_once(values: OptionValues) -> bool:
    return values.choice("delivery", _DELIVERIES, default=_DELIVERIES[0]) == EXACTLY_ONCE


def _read(values: OptionValues, version: Version | None) -> SinkOptions:
    exactly_once = _is_exactly_once(values)
    acks_text = values.choice("kafka.acks", tuple(_ACKS), default="all")
    acks = _ACKS[acks_text]
    idempotent = values.boolean("kafka.enable.idempotence", default=acks == -1)
    if idempotent and acks != -1:
        raise OptionError("Must set acks to all in order to use the idempotent producer.")
    if exactly_once and not idempotent:
        raise OptionError("delivery=exactly-once needs kafka.acks=all and kafka.enable.idempotence=true")
    warnings = []
    if acks_text == "0":
        warnings.append("kafka.acks=0 is served as 1: a task that did not know whether its rows arrived could not end")
    useless = [name for name in _WITHOUT_EFFECT if name in values]
    if useless:
        warnings.append(f"No effect here, whatever they are set to: {', '.join(useless)}")
    topic = values.text("topic")
    if topic is not None and not topic.strip():
        raise OptionError("Option 'topic' must not be empty")
    max_request_bytes = _integer(values, "kafka.max.request.size", MIB)
    return SinkOptions(
        bootstrap=bootstrap_of(values, "producer"),
        client_id=values.text("kafka.client.id") or "penstock-spark",
        security=security_of(values),
        request_timeout_ms=_integer(values, "kafka.request.timeout.ms", 30 * SECOND_MS),
        delivery_timeout_ms=_integer(values, "kafka.delivery.timeout.ms", 2 * MINUTE_MS),
        topic=None if topic is None else topic.strip(),
        exactly_once=exactly_once,
        version=version,
        include_timestamp=values.boolean("includeTimestamp", default=False),
        acks=acks,
        idempotent=idempotent,
        compression=_COMPRESSIONS[values.choice("kafka.compression.type", tuple(_COMPRESSIONS), default="none")],
        batch_bytes=min(_integer(values, "kafka.batch.size", _BATCH_BYTES), max_request_bytes),
        buffer_bytes=_integer(values, "kafka.buffer.memory", 32 * MIB),
        max_request_bytes=max_request_bytes,
        transaction_timeout_ms=_integer(values, "kafka.transaction.timeout.ms", 15 * MINUTE_MS),
        warnings=tuple(warnings),
    )


def _integer(values: OptionValues, name: str, default: int) -> int:
    value = values.integer(name, at_least=1)
    return default if value is None else value
