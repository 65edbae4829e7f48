"""What brokers say while leaders change and logs are cut, and what no broker should say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from tests.spark.fake_broker import (
    LIST_OFFSETS,
    METADATA,
    NO_TIME,
    OFFSET_FOR_LEADER_EPOCH,
    TOPIC_ID,
    VERSIONS,
    FakeBroker,
    fetched,
    metadata,
)
from tests.spark.written import settings_for

from penstock.spark.core.failures import ClientFailure, DataLoss, Unavailable
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.source_options import stream_options
from penstock.spark.range_reader import RangeReader
from penstock.spark.stream_reader import StreamReader
from penstock.wire.fetched import FetchResponse
from penstock.wire.records import Record, build_batch
from penstock.wire.schemas import FETCH

WANTED = OffsetRange("orders", TOPIC_ID, 0, 0, 6, leader_epoch=3)


def batch_at(offset: int, count: int = 3) -> bytearray:
    records = [Record(offset + at, 0, None, b"%d" % (offset + at)) for at in range(count)]
    return build_batch(records, base_offset=offset, leader_epoch=3)


def read(bootstrap: str, wanted: OffsetRange = WANTED, **more: Any) -> list[bytes]:
    patience_ms = more.pop("patience_ms", 10_000)
    reader = RangeReader(settings_for(bootstrap, patience_ms=patience_ms), ["value"], **more)
    return pa.Table.from_batches(list(reader.read(wanted)), pa.schema({"value": pa.binary()}))["value"].to_pylist()  # type: ignore[no-any-return]


def in_turn(*answers: Any) -> Callable[[Any], Any]:
    """One after the other; the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def by_offset(request: Any) -> FetchResponse:
    """A log of six records in two batches, one batch at a time."""
    offset = request.topics[0].partitions[0].fetch_offset
    return fetched(batch_at(0 if offset < 3 else 3), end=6) if offset < 6 else fetched(end=6)


def epoch_end(offset: int) -> OffsetForLeaderEpochResponse:
    row = EpochEndOffset(error_code=ErrorCode.none, partition=i32(0), leader_epoch=i32(3), end_offset=i64(offset))
    topic = OffsetForLeaderTopicResult(topic=TopicName("orders"), partitions=(row,))
    return OffsetForLeaderEpochResponse(throttle_time=NO_TIME, topics=(topic,))


def listed_offset(offset: int, leader_epoch: int = 3) -> ListOffsetsResponse:
    row = ListOffsetsPartitionResponse(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        timestamp=i64(-1),
        offset=i64(offset),
        leader_epoch=i32(leader_epoch),
    )
    topic = ListOffsetsTopicResponse(name=TopicName("orders"), partitions=(row,))
    return ListOffsetsResponse(throttle_time=NO_TIME, topics=(topic,))


def test_the_new_leader_is_found_in_mid_range() -> None:
    ports: list[int] = []
    moved = fetched(error=ErrorCode.not_leader_or_follower)
    shown = in_turn(0, 0, 1)
    answers = {METADATA: lambda _: metadata(ports, shown(None), 3)}
    with (
        FakeBroker({**answers, FETCH: in_turn(fetched(batch_at(0), end=6), moved)}) as old,
        FakeBroker({**answers, FETCH: by_offset}) as new,
    ):
        ports[:] = [old.port, new.port]
        assert read(old.bootstrap) == [b"%d" % at for at in range(6)]
        assert new.asked.count(FETCH) == 1


@pytest.mark.parametrize(
    "passing",
    [
        fetched(error=ErrorCode.fenced_leader_epoch),
        fetched(error=ErrorCode.unknown_leader_epoch),
        fetched(error=ErrorCode.kafka_storage_error),
        fetched(error=ErrorCode.unknown_topic_id),
        # A throttled answer has no rows.
        FetchResponse([]),
        FetchResponse([], ErrorCode.request_timed_out),
    ],
)
def test_what_passes_is_sat_out(passing: FetchResponse) -> None:
    first = in_turn(passing, passing, None)
    with FakeBroker(
        {METADATA: lambda _: metadata([broker.port], 0, 3), FETCH: lambda r: first(r) or by_offset(r)}
    ) as broker:
        assert read(broker.bootstrap) == [b"%d" % at for at in range(6)]


def test_what_does_not_pass_is_said(caplog: pytest.LogCaptureFixture) -> None:
    refused = fetched(error=ErrorCode.topic_authorization_failed)
    with (
        FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 3), FETCH: in_turn(refused)}) as broker,
        pytest.raises(ClientFailure, match=r"127.0.0.1:\d+ says of orders-0: topic_authorization_failed"),
    ):
        read(broker.bootstrap)
    passing = fetched(error=ErrorCode.leader_not_available)
    with (
        FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 3), FETCH: in_turn(passing)}) as broker,
        pytest.raises(Unavailable, match=r"reading orders-0 from offset 0 on failed for 200 ms.*leader_not_available"),
    ):
        read(broker.bootstrap, patience_ms=200)


def test_records_that_an_election_cut_off_are_a_loss() -> None:
    """The leader of epoch 4 took over at offset 5, and what it has there is not what was planned."""
    answers = {FETCH: by_offset, OFFSET_FOR_LEADER_EPOCH: in_turn(epoch_end(5))}
    with FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 4), **answers}) as broker:
        with pytest.raises(DataLoss, match=r"offset \[5, 6\) for topic partition orders-0.*election"):
            read(broker.bootstrap)
        assert len(read(broker.bootstrap, fail_on_data_loss=False)) == 6
        assert read(broker.bootstrap, OffsetRange("orders", TOPIC_ID, 0, 0, 5, leader_epoch=3)) == [
            b"%d" % at for at in range(5)
        ]


def test_a_stream_does_not_pass_over_what_an_election_has_put_in_the_place_of_what_was_read() -> None:
    """It has read five records; the leader of epoch 4 had three of them, and has six by now."""
    answers = {LIST_OFFSETS: in_turn(listed_offset(6, 4)), OFFSET_FOR_LEADER_EPOCH: in_turn(epoch_end(3))}
    start = {"orders": {"id": str(TOPIC_ID), "offsets": {"0": 5}, "leaderEpochs": {"0": 3}}}
    with FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 4), FETCH: by_offset, **answers}) as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "orders"}
        strict, lenient = (
            StreamReader(stream_options({**options, "failOnDataLoss": word}), StructType().add("value", "binary"))
            for word in ("true", "false")
        )
        end = strict.latestOffset(start, ReadAllAvailable())
        with pytest.raises(DataLoss, match="orders-0 was read up to offset 5, and an election has cut it off at 3"):
            strict.partitions(start, end)
        (piece,) = lenient.partitions(start, end)
        assert [value.as_py() for rows in lenient.read(piece) for value in rows["value"]] == [b"3", b"4", b"5"]
        strict.stop()
        lenient.stop()


def test_an_election_in_mid_range_is_noticed() -> None:
    shown = in_turn(3, 4)
    fetches = in_turn(
        fetched(batch_at(0), end=6), fetched(error=ErrorCode.fenced_leader_epoch), fetched(batch_at(3), end=6)
    )
    answers = {FETCH: fetches, OFFSET_FOR_LEADER_EPOCH: in_turn(epoch_end(3))}
    with (
        FakeBroker({METADATA: lambda _: metadata([broker.port], 0, shown(None)), **answers}) as broker,
        pytest.raises(DataLoss, match=r"\[3, 6\)"),
    ):
        read(broker.bootstrap)


def test_offsets_that_no_record_has_any_more_end_the_range() -> None:
    empty_end = in_turn(fetched(batch_at(0), end=6), fetched(end=6))
    with FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 3), FETCH: empty_end}) as broker:
        assert read(broker.bootstrap) == [b"0", b"1", b"2"]


def test_out_of_range_for_a_moment_is_no_loss() -> None:
    once = in_turn(fetched(error=ErrorCode.offset_out_of_range), None)
    answers = {LIST_OFFSETS: in_turn(listed_offset(0), listed_offset(6)), FETCH: lambda r: once(r) or by_offset(r)}
    with FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 3), **answers}) as broker:
        assert len(read(broker.bootstrap)) == 6


def changed(batch: bytearray, at: int) -> bytearray:
    batch[at] ^= 1
    return batch


@pytest.mark.parametrize(
    ("records", "match"),
    [
        (changed(batch_at(0), 70), "the batch at offset 0 of orders-0 cannot be read: it does not match its CRC"),
        (changed(batch_at(0), 16), "orders-0 cannot be read at offset 0: what follows offset 0 is no batch"),
        (build_batch([Record(0, 2**62, None, b"v")]), "offset 0 has timestamp"),
    ],
)
def test_damage_is_said_with_its_place(records: bytearray, match: str) -> None:
    columns = ["value", "timestamp"]
    with FakeBroker(
        {METADATA: lambda _: metadata([broker.port], 0, 3), FETCH: in_turn(fetched(records, end=6))}
    ) as broker:
        reader = RangeReader(settings_for(broker.bootstrap), columns)
        with pytest.raises(ClientFailure, match=match):
            list(reader.read(WANTED))


def test_a_broker_that_is_too_old_is_said() -> None:
    with (
        FakeBroker({METADATA: lambda _: metadata([broker.port], 0, 3)}, {**VERSIONS, FETCH: 11}) as broker,
        pytest.raises(ClientFailure, match=r"does not speak Fetch version 13, but versions 11 to 11.*Kafka from 3.1"),
    ):
        read(broker.bootstrap)
