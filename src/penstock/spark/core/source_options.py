"""What a reader is asked for: the options of Spark's Kafka source, with its defaults, and what it would refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.core.bootstrap import bootstrap_of
from penstock.spark.core.option_values import OptionError, OptionValues
from penstock.spark.core.positions import (
    EARLIEST,
    LATEST,
    Everywhere,
    Position,
    check_batch_positions,
    parse_offsets,
    parse_partitions,
    parse_timestamp,
    parse_timestamps,
)
from penstock.spark.core.read_limits import ReadLimits
from penstock.spark.core.security import Security
from penstock.spark.core.security_options import SECURITY_OPTIONS, security_of
from penstock.spark.core.topic_partition import TopicPartition
from penstock.units import MINUTE_MS, SECOND_MS

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_OPTIONS = (
    *_STRATEGIES,
    *_LIMITS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "partition.metadata.cache.ttl.ms",
    "groupIdPrefix",
    "groupId",
    "filterPushdown",
)
_KAFKA_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.bytes",
)
# Settings of Kafka's consumer that change nothing here: there is no group member, no poll and no metadata cache that
# they could be about. Jobs that set them must run all the same.
USELESS_OPTIONS = tuple(
    "kafka." + name
    for name in (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
_REFUSED = {
    "kafka.auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingOffsets' to "
        "'earliest' or 'latest' to specify where to start. Structured Streaming manages which offsets are consumed "
        "internally, rather than relying on the kafkaConsumer to do it. This will ensure that no data is missed when "
        "new topics/partitions are dynamically subscribed. Note that 'startingOffsets' only applies when a new "
        "Streaming query is started, and that resuming will always pick up from where the query left off."
    ),
    "kafka.key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys."
    ),
    "kafka.value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values."
    ),
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
    "topic": "Option 'topic' is for writing: set 'subscribe' to read a topic",
    "path": "A topic has no path: load() takes none, set the option 'subscribe' instead",
}
KNOWN_OPTIONS = (*_OPTIONS, *_KAFKA_OPTIONS, *SECURITY_OPTIONS, *USELESS_OPTIONS)


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Exactly one of them is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Plain and picklable. `warnings` are for whoever asked, once."""

    bootstrap: tuple[str, ...]
    client_id: str
    security: Security | None
    request_timeout_ms: int
    api_timeout_ms: int
    poll_timeout_ms: int
    fetch_max_bytes: int | None
    topics: TopicChoice
    start: Position
    end: Position
    limits: ReadLimits
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    fail_on_data_loss: bool
    read_committed: bool
    offset_attempts: int
    offset_retry_ms: int
    metadata_ttl_ms: int | None
    group: str | None
    filter_pushdown: bool
    warnings: tuple[str, ...]


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    values = OptionValues(options, KNOWN_OPTIONS, _REFUSED)
    start = _position(values, "starting", default=EARLIEST)
    end = _position(values, "ending", default=LATEST)
    check_batch_positions(start, end)
    ignored = [f"{name} option ignored in batch queries" for name in _LIMITS if name in values]
    return _read(values, start, end, ReadLimits(), ignored)


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    values = OptionValues(options, KNOWN_OPTIONS, _REFUSED)
    if "endingOffsets" in values:
        raise OptionError("ending offset not valid in streaming queries")
    if "endingOffsetsByTimestamp" in values or "endingTimestamp" in values:
        raise OptionError("ending timestamp not valid in streaming queries")
    start = _position(values, "starting", default=LATEST)
    said = []
    if _group(values) is None:
        said.append(
            "Without kafka.group.id or groupId this query's progress is in its checkpoint only: no consumer group "
            "shows how far it is and how far behind"
        )
    return _read(values, start, Everywhere(LATEST), _limits(values), said)


def _position(values: OptionValues, which: str, *, default: int) -> Position:
    """The first of these that is set counts: one timestamp, timestamps by partition, offsets."""
    strategy = values.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), default="error")
    or_latest = strategy == "latest"
    if (text := values.text(f"{which}Timestamp")) is not None:
        return parse_timestamp(text, or_latest=or_latest)
    if (text := values.text(f"{which}OffsetsByTimestamp")) is not None:
        return parse_timestamps(text, or_latest=or_latest)
    if (text := values.text(f"{which}Offsets")) is not None:
        return parse_offsets(text)
    return Everywhere(default)


def _limits(values: OptionValues) -> ReadLimits:
    least = values.integer("minOffsetsPerTrigger", at_least=1)
    most = values.integer("maxOffsetsPerTrigger", at_least=1)
    if least is not None and most is not None and least > most:
        raise OptionError(f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")
    delay_ms = values.duration_ms("maxTriggerDelay", default_ms=15 * MINUTE_MS)
    return ReadLimits(max_offsets=most, min_offsets=least, max_delay_ms=delay_ms)


def _read(
    values: OptionValues, start: Position, end: Position, limits: ReadLimits, warnings: list[str]
) -> SourceOptions:
    topics = _topics(values)
    ttl_ms = values.integer("partition.metadata.cache.ttl.ms", at_least=-1)
    if ttl_ms == 0:
        raise OptionError(
            "Option 'partition.metadata.cache.ttl.ms' must be a positive number of milliseconds, "
            "or -1 to disable caching"
        )
    group = _group(values)
    if group is not None and "groupIdPrefix" in values:
        warnings.append("Option groupIdPrefix will be ignored as a group id has been set.")
    useless = [name for name in USELESS_OPTIONS if name in values]
    if useless:
        warnings.append(f"No effect here, whatever they are set to: {', '.join(useless)}")
    isolation = values.choice(
        "kafka.isolation.level", ("read_uncommitted", "read_committed"), default="read_uncommitted"
    )
    return SourceOptions(
        bootstrap=bootstrap_of(values, "consumer"),
        client_id=values.text("kafka.client.id") or group or values.text("groupIdPrefix") or "penstock-spark",
        security=security_of(values),
        request_timeout_ms=_integer(values, "kafka.request.timeout.ms", 30 * SECOND_MS),
        api_timeout_ms=_integer(values, "kafka.default.api.timeout.ms", 2 * MINUTE_MS),
        poll_timeout_ms=_integer(values, "kafkaConsumer.pollTimeoutMs", 2 * MINUTE_MS),
        fetch_max_bytes=values.integer("kafka.fetch.max.bytes", at_least=1),
        topics=topics,
        start=start,
        end=end,
        limits=limits,
        min_partitions=values.integer("minPartitions", at_least=1),
        max_records_per_partition=values.integer("maxRecordsPerPartition", at_least=1),
        include_headers=values.boolean("includeHeaders", default=False),
        fail_on_data_loss=values.boolean("failOnDataLoss", default=True),
        read_committed=isolation == "read_committed",
        offset_attempts=_integer(values, "fetchOffset.numRetries", 3),
        offset_retry_ms=_integer(values, "fetchOffset.retryIntervalMs", SECOND_MS),
        metadata_ttl_ms=None if ttl_ms == -1 else ttl_ms,
        group=group,
        filter_pushdown=values.boolean("filterPushdown", default=False),
        warnings=tuple(warnings),
    )


def _integer(values: OptionValues, name: str, default: int) -> int:
    value = values.integer(name, at_least=1)
    return default if value is None else value


def _topics(values: OptionValues) -> TopicChoice:
    given = [name for name in _STRATEGIES if name in values]
    if len(given) != 1:
        how_many = "Only one" if given else "One"
        verb = "can" if given else "must"
        raise OptionError(
            f"{how_many} of the following options {verb} be specified for Kafka source: {', '.join(_STRATEGIES)}. "
            "See the docs for more details."
        )
    text = values.text(given[0]) or ""
    match given[0]:
        case "subscribe":
            names = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
            if not names:
                raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
            return TopicChoice(topics=names)
        case "subscribePattern":
            return TopicChoice(pattern=_pattern(text))
        case _:
            if not text.strip().startswith("{"):
                raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
            return TopicChoice(assigned=parse_partitions(text))


def _pattern(text: str) -> str:
    pattern = text.strip()
    if not pattern:
        raise OptionError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"subscribePattern '{pattern}' is no regular expression: {error}") from error
    return pattern


def _group(values: OptionValues) -> str | None:
    kafka_group, group = values.text("kafka.group.id"), values.text("groupId")
    if kafka_group is not None and group is not None and kafka_group != group:
        raise OptionError(f"kafka.group.id '{kafka_group}' and groupId '{group}' mean the same: set one of them")
    chosen = kafka_group if kafka_group is not None else group
    if chosen == "":
        raise OptionError("A group id must not be empty")
    return chosen
