"""Options and rows of the sink, in the words of Spark's Kafka sink."""

from __future__ import annotations

import pickle

import pytest

from penstock.spark.core.option_values import OptionError
from penstock.spark.core.sink_options import SinkOptions, Version, batch_sink_options, stream_sink_options
from penstock.spark.core.sink_rows import sink_columns

SERVERS = {"kafka.bootstrap.servers": "one:9092,two:9092"}
EXACTLY = {"delivery": "exactly-once"}
HEADERS = "array<struct<key:string,value:binary>>"


def batch(**options: str) -> SinkOptions:
    return batch_sink_options({**SERVERS, **{name.replace("_", "."): text for name, text in options.items()}})


def test_defaults_are_those_of_kafka() -> None:
    options = batch(topic=" orders ")
    assert options.bootstrap == ("one:9092", "two:9092")
    assert (options.topic, options.acks, options.idempotent, options.compression) == ("orders", -1, True, 0)
    assert (options.exactly_once, options.version, options.include_timestamp) == (False, None, False)
    assert options.max_request_bytes == 1 << 20
    assert pickle.loads(pickle.dumps(options)) == options


def test_spark_s_own_option_of_a_streaming_query_is_known() -> None:
    options = stream_sink_options({**SERVERS, **EXACTLY, "checkpointlocation": "/somewhere"})
    assert options.exactly_once
    assert options.warnings == ()


def test_a_version_of_a_write() -> None:
    options = batch(**EXACTLY, txnAppId="nightly", txnVersion="12")
    assert options.version == Version("nightly", 12)


def test_what_has_no_effect_is_said() -> None:
    options = batch(kafka_linger_ms="5", kafka_acks="0")
    assert [warning.split(":")[0] for warning in options.warnings] == [
        "kafka.acks=0 is served as 1",
        "No effect here, whatever they are set to",
    ]
    assert (options.acks, options.idempotent) == (1, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topik": "orders"}, "Unknown option 'topik'. Did you mean 'topic'?"),
        ({"kafka.key.serializer": "x"}, "as keys are serialized with ByteArraySerializer"),
        ({"kafka.value.serializer": "x"}, "as value are serialized with ByteArraySerializer"),
        ({"kafka.transactional.id": "x"}, "'delivery' is 'exactly-once'"),
        ({"kafka.acks": "2"}, "kafka.acks must be one of all, -1, 1, 0, got '2'"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "Must set acks to all"),
        ({"kafka.acks": "1", **EXACTLY}, "delivery=exactly-once needs kafka.acks=all"),
        ({"kafka.compression.type": "rar"}, "kafka.compression.type must be one of none, gzip, snappy, lz4, zstd"),
        ({"delivery": "twice"}, "delivery must be one of at-least-once, exactly-once"),
        ({"txnAppId": "a", **EXACTLY}, "txnAppId and txnVersion belong together"),
        ({"txnAppId": "a", "txnVersion": "1"}, "need the option 'delivery' to be 'exactly-once'"),
        ({"txnAppId": "", "txnVersion": "1", **EXACTLY}, "txnAppId must have 1 to 250 characters"),
        ({"txnAppId": "a", "txnVersion": "-1", **EXACTLY}, "txnVersion must be an integer of at least 0"),
        ({"topic": " "}, "'topic' must not be empty"),
        ({"subscribe": "orders"}, "Option 'subscribe' is for reading"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        batch_sink_options({**SERVERS, **options})
    assert words in str(refused.value)


def test_a_producer_needs_a_cluster() -> None:
    with pytest.raises(OptionError, match="must be specified for configuring Kafka producer"):
        batch_sink_options({})


def test_a_streaming_query_has_its_own_numbers() -> None:
    with pytest.raises(OptionError, match="txnVersion is for writes in foreachBatch"):
        stream_sink_options({**SERVERS, **EXACTLY, "txnVersion": "1"})


def test_columns_are_chosen_and_others_left_out() -> None:
    fields = [
        ("offset", "bigint"),
        ("value", "string"),
        ("topic", "int"),
        ("key", "binary"),
        ("timestamp", "timestamp"),
    ]
    assert sink_columns(fields, topic="orders", include_timestamp=False) == ("key", "value")
    assert sink_columns(fields, topic="orders", include_timestamp=True) == ("key", "value", "timestamp")
    assert sink_columns([("topic", "string"), ("value", "binary"), ("headers", HEADERS), ("partition", "int")],
                        topic=None, include_timestamp=False) == ("topic", "value", "headers", "partition")  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([("value", "binary")], "topic option required when no 'topic' attribute is present"),
        ([("topic", "string")], "Required attribute 'value' not found"),
        ([("topic", "int"), ("value", "binary")], "topic attribute unsupported type int. topic must be a(n) string"),
        ([("topic", "string"), ("value", "int")], "value must be a(n) string or binary"),
        ([("topic", "string"), ("value", "binary"), ("key", "bigint")], "key attribute unsupported type bigint"),
        ([("topic", "string"), ("value", "binary"), ("headers", "int")], f"headers must be a(n) {HEADERS}"),
        ([("topic", "string"), ("value", "binary"), ("partition", "bigint")], "partition must be a(n) int"),
    ],
)
def test_rows_that_no_topic_takes(fields: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        sink_columns(fields, topic=None, include_timestamp=False)
    assert words in str(refused.value)


def test_timestamps_must_be_there_when_they_are_asked_for() -> None:
    with pytest.raises(OptionError, match="includeTimestamp needs an attribute 'timestamp'"):
        sink_columns([("value", "binary")], topic="orders", include_timestamp=True)
