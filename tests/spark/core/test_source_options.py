from __future__ import annotations

import pytest

from penstock.spark.core.option_values import OptionError
from penstock.spark.core.positions import EARLIEST, LATEST, Everywhere, Timestamps
from penstock.spark.core.source_options import SourceOptions, TopicChoice, batch_options, stream_options
from penstock.spark.core.topic_partition import TopicPartition

BASE = {"kafka.bootstrap.servers": "one:9092, SASL_SSL://[::1]:9093", "subscribe": "orders"}


def batch(**options: str) -> SourceOptions:
    return batch_options(BASE | {name.replace("__", "."): text for name, text in options.items()})


def stream(**options: str) -> SourceOptions:
    return stream_options(BASE | {name.replace("__", "."): text for name, text in options.items()})


def test_the_defaults_of_a_batch() -> None:
    options = batch()
    assert options.bootstrap == ("one:9092", "[::1]:9093")
    assert (options.start, options.end) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert options.topics == TopicChoice(topics=("orders",))
    assert options.fail_on_data_loss
    assert not (options.include_headers or options.read_committed or options.filter_pushdown)
    assert (options.group, options.security, options.min_partitions, options.metadata_ttl_ms) == (None,) * 4
    assert not options.warnings


def test_the_defaults_of_a_stream() -> None:
    options = stream()
    assert options.start == Everywhere(LATEST)
    assert (options.limits.max_offsets, options.limits.min_offsets) == (None, None)
    assert options.limits.max_delay_ms == 15 * 60 * 1000
    assert "no consumer group" in options.warnings[0]
    assert not stream(kafka__group__id="spark").warnings


def test_which_position_counts_if_several_are_set() -> None:
    everything = {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"a":{"0":7}}', "startingOffsets": "latest"}
    assert stream(**everything).start == Timestamps(5)
    del everything["startingTimestamp"]
    assert stream(**everything).start == Timestamps({TopicPartition("a", 0): 7})
    strategy = {"startingOffsetsByTimestampStrategy": "LATEST"}
    assert stream(**everything, **strategy).start == Timestamps({TopicPartition("a", 0): 7}, or_latest=True)


def test_topics() -> None:
    assert batch(subscribe=" a, b ,,a").topics.topics == ("a", "b")
    del_subscribe = {name: text for name, text in BASE.items() if name != "subscribe"}
    assert batch_options(del_subscribe | {"subscribePattern": " log-.* "}).topics.pattern == "log-.*"
    assigned = batch_options(del_subscribe | {"assign": '{"a":[1]}'}).topics.assigned
    assert assigned == {TopicPartition("a", 1)}
    with pytest.raises(
        OptionError, match="One of the following options must be specified for Kafka source: subscribe, "
    ):
        batch_options(del_subscribe)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"assign": '{"a":[1]}'}, "Only one of the following options can be specified"),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"kafka__auto__offset__reset": "latest"}, "'auto.offset.reset' is not supported.*'startingOffsets'"),
        ({"kafka__key__deserializer": "x"}, "keys are deserialized as byte arrays"),
        ({"kafka__value__deserializer": "x"}, "values are deserialized as byte arrays"),
        ({"kafka__enable__auto__commit": "true"}, "'enable.auto.commit' is not supported"),
        ({"kafka__interceptor__classes": "x"}, "'interceptor.classes' is not supported"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-3"}, "maxRecordsPerPartition must be positive"),
        ({"partition__metadata__cache__ttl__ms": "0"}, "positive number of milliseconds, or -1 to disable caching"),
        ({"kafka__bootstrap__servers": "one"}, "must be host:port, separated by commas, got 'one'"),
        ({"kafka__bootstrap__servers": ""}, "kafka.bootstrap.servers"),
        ({"kafka__isolation__level": "serializable"}, "kafka.isolation.level must be one of"),
        ({"groupId": "a", "kafka__group__id": "b"}, "mean the same: set one of them"),
        ({"groupId": ""}, "must not be empty"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        (
            {"kafka__fetch__max__byte": "1"},
            "Unknown option 'kafka.fetch.max.byte'. Did you mean 'kafka.fetch.max.bytes'",
        ),
        ({"topic": "orders"}, "set 'subscribe' to read a topic"),
        ({"path": "orders"}, "load.. takes none"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "must be one of error, latest"),
    ],
)
def test_what_both_refuse(options: dict[str, str], text: str) -> None:
    for read in (batch, stream):
        with pytest.raises(OptionError, match=text):
            read(**options)


def test_what_only_a_stream_refuses() -> None:
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        stream(endingOffsets="latest")
    for name in ("endingOffsetsByTimestamp", "endingTimestamp"):
        with pytest.raises(OptionError, match="ending timestamp not valid in streaming queries"):
            stream(**{name: "5"})
    with pytest.raises(OptionError, match=r"minOffsetPerTrigger\(5\) is higher than the maxOffsetsPerTrigger\(4\)"):
        stream(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")
    with pytest.raises(OptionError, match="maxTriggerDelay must be a time"):
        stream(maxTriggerDelay="later")


def test_what_only_a_batch_refuses() -> None:
    with pytest.raises(OptionError, match="starting offset can't be latest for batch queries on Kafka"):
        batch(startingOffsets="latest")
    assert "maxOffsetsPerTrigger option ignored in batch queries" in batch(maxOffsetsPerTrigger="5").warnings


def test_a_pattern_that_is_none() -> None:
    base = {"kafka.bootstrap.servers": "one:9092"}
    with pytest.raises(OptionError, match="Pattern to subscribe is empty"):
        stream_options(base | {"subscribePattern": " "})
    with pytest.raises(OptionError, match="is no regular expression"):
        stream_options(base | {"subscribePattern": "log-("})
    with pytest.raises(OptionError, match="No topicpartitions to assign"):
        stream_options(base | {"assign": "orders"})
    with pytest.raises(OptionError, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        stream_options({"subscribe": "a"})


def test_what_means_nothing_here_is_said_and_does_no_harm() -> None:
    options = stream(kafka__session__timeout__ms="10", groupId="spark", groupIdPrefix="x")
    assert any("kafka.session.timeout.ms" in warning for warning in options.warnings)
    assert any("groupIdPrefix will be ignored" in warning for warning in options.warnings)
