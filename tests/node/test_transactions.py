"""Transactions on one node, request by request: what comes late or wrong, in both versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersions3
from kio.schema.api_versions.v4.request import ApiVersionsRequest as ApiVersions4
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i8
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually
from tests.transactions.node_client import Client
from tests.transactions.raw_client import code_of, initialised

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
    commit = producer.commit_offset(name, topic, 7)
    retried = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
    while (code := client.ask(commit).topics[0].partitions[0].error_code) in retried:
        pass
    assert code is ErrorCode.none
    assert client.state(name) == "Ongoing"
    producer.ended_by(client.ask(producer.end()))
    eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
    assert client.ask(commit).topics[0].partitions[0].error_code is ErrorCode.invalid_producer_epoch


@pytest.mark.parametrize("version", [1, 2])
def test_an_id_that_has_expired_is_nobodys(name: str, version: int) -> None:
    soon = {
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        "transaction.state.log.num.partitions": "1",
    }
    with penstock.testing.node(soon) as node:
        client = Client(node)
        topic = client.topic()
        producer = client.begun(name, topic, version)
        producer = producer.ended_by(client.ask(producer.end()))
        eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
        node.advance(seconds=2)
        eventually(lambda: not client.ask(ListTransactionsRequest()).transaction_states, "it has expired")
        assert client.produce(producer, topic, 2 - version) is ErrorCode.invalid_producer_id_mapping
        assert code_of(client.ask(producer.add(topic, 0))) is ErrorCode.invalid_producer_id_mapping
        assert client.ask(producer.add_offsets(name)).error_code is ErrorCode.invalid_producer_id_mapping
        assert client.ask(producer.end()).error_code is ErrorCode.invalid_producer_id_mapping
        assert client.offsets(topic) == (2, 2)
        again = client.begun(name, topic, version)
        assert again.id != producer.id
        again.ended_by(client.ask(again.end()))
        client.until_stable(topic)
        client.connection.close()


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
