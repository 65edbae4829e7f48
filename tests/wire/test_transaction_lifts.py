"""The APIs of transactions, where their versions differ by more than fields that came and went."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta
from tests.wire.messages import SERVED, kio_bytes, sent_as

from penstock.wire.lifts.add_partitions_to_txn import AddPartitionsToTxnResponse
from penstock.wire.lifts.describe_transactions import DescribeTransactionsResponse, TransactionState
from penstock.wire.lifts.offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from penstock.wire.schemas import request_class
from penstock.wire.shapes import shape_of
from penstock.wire.versions import decode, encode

ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_MARKERS, TXN_OFFSET_COMMIT, DESCRIBE = 24, 25, 26, 27, 28, 65
OFFSET_COMMIT = 8
UNTHROTTLED = i32Timedelta.parse(timedelta(0))
FENCED, OLD_EPOCH = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch
ABORTABLE, BAD_STATE = ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state


def versions(api_key: int) -> range:
    oldest, newest = SERVED[api_key]
    return range(oldest, newest + 1)


def made(message: type, **values: Any) -> Any:
    """With those of the values that this version has a field for; rows are given as dictionaries."""
    found = {}
    for field in shape_of(message):
        if field.name in values:
            value = values[field.name]
            found[field.name] = value if field.entity is None else tuple(made(field.entity, **row) for row in value)
    return message(**found)


def received(api_key: int, version: int, **values: Any) -> Any:
    return decode(api_key, version, kio_bytes(made(request_class(api_key, version), **values)))


@pytest.mark.parametrize("version", versions(ADD_PARTITIONS))
def test_partitions_are_added_to_transactions(version: int) -> None:
    topics = ({"name": "t", "partitions": (1, 2)},)
    transaction = {
        "transactional_id": "x",
        "producer_id": 9,
        "producer_epoch": 3,
        "verify_only": True,
        "topics": topics,
    }
    request = received(
        ADD_PARTITIONS,
        version,
        transactions=(transaction,),
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=9,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=topics,
    )
    assert request.by_client == (version <= 3)
    (got,) = request.transactions
    assert (got.transactional_id, got.producer_id, got.producer_epoch) == ("x", 9, 3)
    assert [(topic.name, topic.partitions) for topic in got.topics] == [("t", (1, 2))]
    assert got.verify_only is (version >= 4)


@pytest.mark.parametrize("version", versions(ADD_PARTITIONS))
@pytest.mark.parametrize(("error", "before", "first"), [(FENCED, OLD_EPOCH, 2), (ABORTABLE, BAD_STATE, 5)])
def test_added_partitions_are_answered_in_the_clients_form_and_words(
    version: int, error: ErrorCode, before: ErrorCode, first: int
) -> None:
    row = AddPartitionsToTxnPartitionResult(partition_index=i32(4), partition_error_code=error)
    topic = AddPartitionsToTxnTopicResult(name=TopicName("t"), results_by_partition=(row,))
    result = AddPartitionsToTxnResult(transactional_id=TransactionalId("x"), topic_results=(topic,))
    sent = sent_as(AddPartitionsToTxnResponse(results_by_transaction=(result,)), ADD_PARTITIONS, version)
    if version >= 4:
        assert sent.error_code is ErrorCode.none
        assert sent.results_by_transaction[0].transactional_id == "x"
    topics = sent.results_by_transaction[0].topic_results if version >= 4 else sent.results_by_topic_v3_and_below
    (answered,) = topics[0].results_by_partition
    assert (topics[0].name, answered.partition_index) == ("t", 4)
    assert answered.partition_error_code is (error if version >= first else before)


@pytest.mark.parametrize("version", versions(ADD_OFFSETS))
@pytest.mark.parametrize(("error", "before", "first"), [(FENCED, OLD_EPOCH, 2), (ABORTABLE, BAD_STATE, 4)])
def test_added_offsets_are_answered_in_the_clients_words(
    version: int, error: ErrorCode, before: ErrorCode, first: int
) -> None:
    response = AddOffsetsToTxnResponse(throttle_time=UNTHROTTLED, error_code=error)
    assert sent_as(response, ADD_OFFSETS, version).error_code is (error if version >= first else before)


@pytest.mark.parametrize("version", versions(END_TXN))
def test_the_end_says_whether_the_epoch_goes_up(version: int) -> None:
    request = received(END_TXN, version, transactional_id="x", producer_id=9, producer_epoch=3, committed=True)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("x", 9, 3)
    assert request.committed
    assert request.bumps_epoch is (version >= 5)


@pytest.mark.parametrize("version", versions(END_TXN))
@pytest.mark.parametrize(("error", "before", "first"), [(FENCED, OLD_EPOCH, 2), (ABORTABLE, BAD_STATE, 4)])
def test_the_end_is_answered_in_the_clients_words(
    version: int, error: ErrorCode, before: ErrorCode, first: int
) -> None:
    response = EndTxnResponse(
        throttle_time=UNTHROTTLED, error_code=error, producer_id=ProducerId(9), producer_epoch=i16(4)
    )
    sent = sent_as(response, END_TXN, version)
    assert sent.error_code is (error if version >= first else before)
    if version >= 5:
        assert (sent.producer_id, sent.producer_epoch) == (9, 4)


@pytest.mark.parametrize("version", versions(WRITE_MARKERS))
def test_markers_of_older_brokers_are_of_the_older_kind(version: int) -> None:
    marker = {
        "producer_id": 9,
        "producer_epoch": 3,
        "transaction_result": True,
        "topics": ({"name": "t", "partition_indexes": (1,)},),
        "coordinator_epoch": 5,
        "transaction_version": 2,
    }
    (got,) = received(WRITE_MARKERS, version, markers=(marker,)).markers
    assert (got.producer_id, got.producer_epoch, got.transaction_result, got.coordinator_epoch) == (9, 3, True, 5)
    assert got.transaction_version == (2 if version >= 2 else 0)


@pytest.mark.parametrize("version", versions(TXN_OFFSET_COMMIT))
def test_offsets_are_committed_for_a_member_where_it_is_named(version: int) -> None:
    row = {"partition_index": 1, "committed_offset": 5, "committed_leader_epoch": 2, "committed_metadata": None}
    request = received(
        TXN_OFFSET_COMMIT,
        version,
        transactional_id="x",
        group_id="g",
        producer_id=9,
        producer_epoch=3,
        generation_id=4,
        member_id="m",
        group_instance_id="i",
        topics=({"name": "t", "partitions": (row,)},),
    )
    assert (request.transactional_id, request.group_id, request.producer_id) == ("x", "g", 9)
    member = (request.generation_id, request.member_id, request.group_instance_id)
    assert member == ((4, "m", "i") if version >= 3 else (-1, "", None))
    assert request.adds_offsets is (version >= 5)
    (got,) = request.topics[0].partitions
    assert (got.partition_index, got.committed_offset, got.committed_metadata) == (1, 5, None)
    assert got.committed_leader_epoch == (2 if version >= 2 else -1)


@pytest.mark.parametrize("version", versions(TXN_OFFSET_COMMIT))
@pytest.mark.parametrize(
    ("error", "before", "first"),
    [
        (FENCED, OLD_EPOCH, 99),
        (ABORTABLE, BAD_STATE, 4),
        (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available, 2),
        (ErrorCode.none, ErrorCode.none, 0),
    ],
)
def test_committed_offsets_are_answered_in_the_clients_words(
    version: int, error: ErrorCode, before: ErrorCode, first: int
) -> None:
    row = TxnOffsetCommitResponsePartition(partition_index=i32(1), error_code=error)
    topic = TxnOffsetCommitResponseTopic(name=TopicName("t"), partitions=(row,))
    response = TxnOffsetCommitResponse(throttle_time=UNTHROTTLED, topics=(topic,))
    (answered,) = sent_as(response, TXN_OFFSET_COMMIT, version).topics[0].partitions
    assert answered.error_code is (error if version >= first else before)


def test_a_transaction_is_described_with_its_start() -> None:
    began = datetime(2026, 11, 15, 1, 2, 3, tzinfo=UTC)
    state = TransactionState(
        transactional_id="x",
        transaction_state="Ongoing",
        transaction_timeout=timedelta(minutes=1),
        transaction_start_time=began,
        producer_id=9,
        producer_epoch=3,
        topics=(TopicData(topic=TopicName("t"), partitions=(i32(1),)),),
    )
    (sent,) = sent_as(DescribeTransactionsResponse(transaction_states=(state,)), DESCRIBE, 0).transaction_states
    assert (sent.transactional_id, sent.transaction_state, sent.producer_id) == ("x", "Ongoing", 9)
    assert (sent.producer_epoch, sent.transaction_timeout) == (3, timedelta(minutes=1))
    assert sent.transaction_start_time == began
    assert [(topic.topic, topic.partitions) for topic in sent.topics] == [("t", (1,))]


def test_without_a_transaction_there_is_no_start() -> None:
    """Which kio's class cannot say."""
    idle = TransactionState(transactional_id="x", transaction_state="Empty", producer_id=9, producer_epoch=3)
    raw = bytes(encode(DescribeTransactionsResponse(transaction_states=(idle,)), DESCRIBE, 0, 1, 0))
    timeout, start, producer = struct.pack(">i", 0), struct.pack(">q", -1), struct.pack(">qh", 9, 3)
    assert b"\x06Empty" + timeout + start + producer in raw


def test_an_id_that_is_not_there_is_answered_as_it_came() -> None:
    """A client may commit for the id of zeros, which is none."""
    row = OffsetCommitResponsePartition(partition_index=i32(1), error_code=ErrorCode.unknown_topic_id)
    topic = OffsetCommitResponseTopic(topic_id=None, partitions=(row,))
    (sent,) = sent_as(OffsetCommitResponse(topics=(topic,)), OFFSET_COMMIT, 10).topics
    assert (sent.topic_id, sent.partitions[0].error_code) == (None, ErrorCode.unknown_topic_id)
