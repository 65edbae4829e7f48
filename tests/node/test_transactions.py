"""Transactions on one node, request by request: what comes late or wrong, in both versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersions3
from kio.schema.api_versions.v4.request import ApiVersionsRequest as ApiVersions4
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.static.primitive import i8, i16, i32, i64
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually
from tests.transactions.node_client import Client
from tests.transactions.raw_client import RawProducer, code_of, find_coordinator, init, initialised

import penstock.testing
from penstock.testing.node import TestNode


@pytest.fixture(scope="module")
def node() -> Iterator[TestNode]:
    with penstock.testing.node({"transaction.state.log.num.partitions": "3"}) as running:
        yield running


@pytest.fixture
def client(node: TestNode) -> Iterator[Client]:
    connected = Client(node)
    try:
        yield connected
    finally:
        connected.connection.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A transactional id."""
    return str(request.node.name)


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_is_ended_and_the_next_one_begun(client: Client, name: str, version: int) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, version)
    assert client.offsets(topic) == (0, 1)
    after = producer.ended_by(client.ask(producer.end()))
    assert after.epoch == producer.epoch + (version - 1)
    client.until_stable(topic)
    eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
    if version == 1:
        assert code_of(client.ask(after.add(topic, 0))) is ErrorCode.none
    assert client.produce(after, topic, 1 if version == 1 else 0) is ErrorCode.none
    assert client.offsets(topic) == (2, 3)
    client.ask(after.end(commit=False))
    client.until_stable(topic)
    eventually(lambda: client.state(name) == "CompleteAbort", "it is complete")


def test_the_next_transaction_of_version_2_may_begin_while_markers_are_written(client: Client, name: str) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, 2)
    for _ in range(20):
        producer = producer.ended_by(client.ask(producer.end()))
        assert client.produce(producer, topic, 0) is ErrorCode.none


def test_what_comes_late_is_refused_under_version_2(client: Client, name: str) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, 2)
    after = producer.ended_by(client.ask(producer.end()))
    client.until_stable(topic)
    assert client.produce(producer, topic, 1) is ErrorCode.invalid_producer_epoch
    assert client.produce(after, topic, 0) is ErrorCode.none
    assert client.ask(producer.end(commit=False)).error_code is ErrorCode.producer_fenced
    assert client.produce(producer, topic, 1) is ErrorCode.invalid_producer_epoch
    assert client.state(name) == "Ongoing"
    after.ended_by(client.ask(after.end()))
    client.until_stable(topic)


def test_the_same_end_is_answered_the_same(client: Client, name: str) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, 2)
    after = producer.ended_by(client.ask(producer.end()))
    client.until_stable(topic)
    eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
    assert producer.ended_by(client.ask(producer.end())) == after


def test_a_late_end_of_version_1_ends_no_later_transaction(client: Client, name: str) -> None:
    topic = client.topic()
    with RawConnection(client.node.bootstrap) as later:
        producer = client.begun(name, topic, 1)
        assert later.ask(producer.end()).error_code is ErrorCode.none
        client.until_stable(topic)
        eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
        assert code_of(later.ask(producer.add(topic, 0))) is ErrorCode.none
        client.connection.send(producer.end(commit=False))
        assert client.connection.wait_until_closed() == b"", "it was sent before the transaction began"
        client.connection = RawConnection(client.node.bootstrap)
        assert client.state(name) == "Ongoing"
        assert later.ask(producer.end()).error_code is ErrorCode.none


def test_a_batch_for_a_partition_that_was_not_added_is_refused_under_version_1(client: Client, name: str) -> None:
    topic = client.topic(partitions=2)
    producer = client.begun(name, topic, 1)
    assert client.produce(producer, topic, 0, partition=1) is ErrorCode.transaction_abortable
    assert client.ask(producer.end()).error_code is ErrorCode.none
    client.until_stable(topic)
    assert client.produce(producer, topic, 1) is ErrorCode.transaction_abortable, "it is over"
    assert client.offsets(topic) == (2, 2)


def test_offsets_go_with_a_transaction_of_version_2(client: Client, name: str) -> None:
    topic = client.topic()
    group = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(name,))
    eventually(lambda: client.ask(group).coordinators[0].error_code is ErrorCode.none, "the group has a coordinator")
    producer = initialised(client.connection, name, 2)
    row = TxnOffsetCommitRequestPartition(partition_index=i32(0), committed_offset=i64(7), committed_metadata=None)
    commit = TxnOffsetCommitRequest(
        transactional_id=TransactionalId(name),
        group_id=GroupId(name),
        producer_id=ProducerId(producer.id),
        producer_epoch=i16(producer.epoch),
        topics=(TxnOffsetCommitRequestTopic(name=TopicName(topic), partitions=(row,)),),
    )
    retried = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
    while (code := client.ask(commit).topics[0].partitions[0].error_code) in retried:
        pass
    assert code is ErrorCode.none
    assert client.state(name) == "Ongoing"
    producer.ended_by(client.ask(producer.end()))
    eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
    assert client.ask(commit).topics[0].partitions[0].error_code is ErrorCode.invalid_producer_epoch


WRONG: dict[str, Callable[[Client, RawProducer, str], tuple[ErrorCode, ErrorCode]]] = {
    "a producer id of another": lambda client, producer, topic: (
        client.produce(replace(producer, id=producer.id + 1000), topic, 0),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "an epoch that does not exist yet": lambda client, producer, topic: (
        client.produce(replace(producer, epoch=producer.epoch + 1), topic, 0),
        ErrorCode.invalid_producer_epoch,
    ),
    "an id that nobody has": lambda client, producer, topic: (
        client.produce(replace(producer, transactional_id="of nobody"), topic, 0),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "an id of 10 KB": lambda client, producer, topic: (
        client.produce(replace(producer, transactional_id="x" * 10_000), topic, 0),
        ErrorCode.invalid_request,
    ),
    "an internal topic": lambda client, producer, topic: (
        code_of(client.ask(producer.add("__transaction_state", 0))),
        ErrorCode.invalid_topic_exception,
    ),
    "a partition that does not exist": lambda client, producer, topic: (
        code_of(client.ask(producer.add(topic, 5))),
        ErrorCode.unknown_topic_or_partition,
    ),
    "a timeout beyond the limit": lambda client, producer, topic: (
        client.ask(init("too long", 10**9)).error_code,
        ErrorCode.invalid_transaction_timeout,
    ),
    "a transactional id of 10 KB": lambda client, producer, topic: (
        client.ask(init("x" * 10_000)).error_code,
        ErrorCode.invalid_request,
    ),
    "the end of what was not begun": lambda client, producer, topic: (
        client.ask(producer.end()).error_code,
        ErrorCode.invalid_txn_state,
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_gets_its_error_and_changes_nothing(client: Client, name: str, what: str) -> None:
    topic = client.topic()
    producer = initialised(client.connection, name, 2)
    found, expected = WRONG[what](client, producer, topic)
    assert found is expected
    assert client.state(name) == "Empty"
    assert client.offsets(topic) == (0, 0)


def test_two_phase_commit_is_refused(client: Client, name: str) -> None:
    initialised(client.connection, name, 2)
    request = InitProducerIdRequest(
        transactional_id=TransactionalId(name), transaction_timeout=requests.timeout(1000), enable2_pc=True
    )
    assert client.ask(request).error_code is ErrorCode.transactional_id_authorization_failed


def test_clients_write_no_markers(client: Client, name: str) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, 2)
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer.id),
        producer_epoch=i16(producer.epoch + 1),
        transaction_result=True,
        topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(0),)),),
        coordinator_epoch=i32(100),
    )
    (row,) = client.ask(WriteTxnMarkersRequest(markers=(marker,))).markers[0].topics[0].partitions
    assert row.error_code is ErrorCode.cluster_authorization_failed
    assert client.offsets(topic) == (0, 1)
    producer.ended_by(client.ask(producer.end()))
    client.until_stable(topic)


def test_transactions_are_listed_by_state(client: Client, name: str) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, 2)

    def listed(**filters: Any) -> set[str]:
        answer = client.ask(ListTransactionsRequest(**filters))
        assert answer.error_code is ErrorCode.none
        return {row.transactional_id for row in answer.transaction_states}

    (row,) = client.ask(DescribeTransactionsRequest(transactional_ids=(TransactionalId(name),))).transaction_states
    assert (row.transaction_state, row.producer_id, row.topics[0].topic) == ("Ongoing", producer.id, topic)
    assert name in listed()
    assert name in listed(state_filters=("Ongoing",))
    assert name not in listed(state_filters=("Empty",))
    assert listed(producer_id_filters=(ProducerId(producer.id),)) == {name}
    assert client.ask(ListTransactionsRequest(state_filters=("Sleepy",))).unknown_state_filters == ("Sleepy",)
    producer.ended_by(client.ask(producer.end()))


def test_an_id_without_a_name_has_no_coordinator(client: Client) -> None:
    (row,) = client.ask(find_coordinator("")).coordinators
    assert row.error_code is ErrorCode.invalid_request


def test_clients_learn_which_version_of_transactions_they_may_use(client: Client) -> None:
    facts = {"client_software_name": "test", "client_software_version": "1"}
    newest = client.ask(ApiVersions4(**facts))
    (feature,) = newest.finalized_features
    assert (feature.name, feature.max_version_level) == ("transaction.version", 2)
    assert newest.finalized_features_epoch >= 0
    assert [row.name for row in newest.supported_features] == ["transaction.version"]
    older = client.ask(ApiVersions3(**facts))
    assert older.finalized_features[0].max_version_level == 2
    assert older.supported_features == (), "clients of that time refuse a feature that may be at 0"
