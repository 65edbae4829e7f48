"""What an operator asks of a cluster, through any broker: moves, elections, brokers that leave for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i8, i32
from tests.cluster.brokers import WAIT_S, Brokers, cluster_on, created, eventually, short_sessions

from penstock.testing import node
from penstock.testing.zookeeper import TestZooKeeper

BROKER = 4
OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with short_sessions() as running:
        yield running


@pytest.fixture
def brokers(server: TestZooKeeper) -> Iterator[Brokers]:
    with cluster_on(server) as running:
        yield running


def reassignment(
    topic: str, partition: int, replicas: list[int] | None, *, any_factor: bool = True
) -> AlterPartitionReassignmentsRequest:
    ids = None if replicas is None else tuple(BrokerId(replica) for replica in replicas)
    row = ReassignablePartition(partition_index=i32(partition), replicas=ids)
    topics = (ReassignableTopic(name=TopicName(topic), partitions=(row,)),)
    return AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=any_factor)


def draining(node_id: int, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="broker.draining", config_operation=i8(0), value=value)
    resource = AlterConfigsResource(resource_type=i8(BROKER), resource_name=str(node_id), configs=(config,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def outcome(brokers: Brokers, asked: int, request: AlterPartitionReassignmentsRequest) -> tuple[ErrorCode, str | None]:
    (topic,) = brokers.ask(asked, request).responses
    (row,) = topic.partitions
    return row.error_code, row.error_message


def test_replicas_move_with_their_records_and_what_cannot_be_is_refused(brokers: Brokers) -> None:
    brokers.start(1, 2, 3)
    created(brokers.admin(1), NewTopic("orders", 1, replica_assignment=[[1, 2]]))
    producer = Producer({"bootstrap.servers": brokers.nodes[1].bootstrap, "acks": "all", "log_level": 0})
    for number in range(100):
        producer.produce("orders", str(number))
    assert producer.flush(WAIT_S) == 0
    assert outcome(brokers, 2, reassignment("orders", 0, [3, 7]))[0] == ErrorCode.invalid_replica_assignment
    assert outcome(brokers, 2, reassignment("nothing", 0, [3]))[0] == ErrorCode.unknown_topic_or_partition
    refused = outcome(brokers, 2, reassignment("orders", 0, [3], any_factor=False))
    assert refused[0] == ErrorCode.invalid_replication_factor
    assert outcome(brokers, 2, reassignment("orders", 0, None))[0] == ErrorCode.no_reassignment_in_progress
    assert outcome(brokers, 2, reassignment("orders", 0, [3, 2])) == (ErrorCode.none, None)
    eventually(lambda: brokers.partitions(3, "orders") == {0: (3, [3, 2], {3, 2})})
    assert brokers.ask(3, ListPartitionReassignmentsRequest(topics=None)).topics == ()
    producer.produce("orders", "after")
    assert producer.flush(WAIT_S) == 0


def test_what_was_moved_away_from_a_broker_that_was_down_is_gone_when_it_is_back(
    server: TestZooKeeper, brokers: Brokers, tmp_path: Path
) -> None:
    brokers.start(1, 3)
    settings = {"coordination": server.target(brokers.chroot), "node.id": "2"}
    moved, kept = (tmp_path / "topics" / name / "partition-0" for name in ("moved", "kept"))
    with node(settings, data_dir=str(tmp_path)):
        created(brokers.admin(1), *(NewTopic(name, 1, replica_assignment=[[1, 2]]) for name in ("moved", "kept")))
        eventually(lambda: moved.exists() and kept.exists())
    assert outcome(brokers, 1, reassignment("moved", 0, [1, 3])) == (ErrorCode.none, None)
    eventually(lambda: brokers.partitions(1, "moved") == {0: (1, [1, 3], {1, 3})})
    with node(settings, data_dir=str(tmp_path)):
        assert (moved.exists(), kept.exists()) == (False, True)


def test_the_preferred_leader_leads_again_when_it_is_asked_for(brokers: Brokers) -> None:
    brokers.start(1, 2, **{"auto.leader.rebalance.enable": "false"})
    created(brokers.admin(1), NewTopic("orders", 1, replica_assignment=[[2, 1]]))
    row = TopicPartitions(topic=TopicName("orders"), partitions=(i32(0),))
    preferred = ElectLeadersRequest(election_type=i8(0), topic_partitions=(row,))
    ((result,),) = [each.partition_result for each in brokers.ask(1, preferred).replica_election_results]
    assert result.error_code == ErrorCode.election_not_needed
    assert outcome(brokers, 1, reassignment("orders", 0, [1, 2])) == (ErrorCode.none, None)
    eventually(lambda: brokers.partitions(1, "orders")[0][1] == [1, 2])
    assert brokers.partitions(1, "orders")[0][0] == 2
    ((result,),) = [each.partition_result for each in brokers.ask(2, preferred).replica_election_results]
    assert result.error_code == ErrorCode.none
    eventually(lambda: brokers.partitions(2, "orders")[0][0] == 1)


def test_a_broker_that_is_gone_for_good_is_forgotten(brokers: Brokers) -> None:
    brokers.start(1, 2, 3)
    created(brokers.admin(1), NewTopic("orders", 1, replica_assignment=[[1, 2]]))
    created(brokers.admin(1), NewTopic("alone", 1, replica_assignment=[[3]]))
    forget = {node_id: UnregisterBrokerRequest(broker_id=BrokerId(node_id)) for node_id in (2, 3, 9)}
    assert brokers.ask(1, forget[2]).error_code == ErrorCode.invalid_request
    assert brokers.ask(1, forget[9]).error_code == ErrorCode.broker_id_not_registered
    brokers.stop(2)
    eventually(lambda: brokers.ask(3, forget[2]).error_code == ErrorCode.none)
    eventually(lambda: brokers.partitions(1, "orders") == {0: (1, [1, 2], {1})})
    brokers.stop(3)
    eventually(lambda: brokers.seen_by(1)[0] == {1})
    answer = brokers.ask(1, forget[3])
    assert answer.error_code == ErrorCode.invalid_request and answer.error_message


def test_a_broker_that_is_drained_becomes_empty_and_gets_nothing_new(brokers: Brokers) -> None:
    brokers.start(1, 2, 3)
    created(brokers.admin(1), NewTopic("orders", 6, 2))
    assert any(3 in replicas for _, replicas, _ in brokers.partitions(1, "orders").values())
    (row,) = brokers.ask(2, draining(3, "true")).responses
    assert row.error_code == ErrorCode.none, row.error_message
    eventually(lambda: all(3 not in replicas for _, replicas, _ in brokers.partitions(1, "orders").values()))
    created(brokers.admin(1), NewTopic("new", 6, 2))
    assert all(3 not in replicas for _, replicas, _ in brokers.partitions(1, "new").values())
    (row,) = brokers.ask(1, draining(2, "true")).responses
    assert row.error_code != ErrorCode.none and "replication factor" in row.error_message
    (row,) = brokers.ask(1, draining(3, "maybe")).responses
    assert row.error_code == ErrorCode.invalid_request
    (row,) = brokers.ask(1, draining(3, "false")).responses
    assert row.error_code == ErrorCode.none, row.error_message
    created(brokers.admin(1), NewTopic("newer", 6, 2))
    assert any(3 in replicas for _, replicas, _ in brokers.partitions(1, "newer").values())


def test_internal_topics_get_more_replicas_as_brokers_join(brokers: Brokers) -> None:
    brokers.start(1)
    (row,) = brokers.ask(1, FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("billing",))).coordinators
    assert (row.error_code, row.node_id) == (ErrorCode.none, 1)
    assert {tuple(replicas) for _, replicas, _ in brokers.partitions(1, OFFSETS).values()} == {(1,)}
    brokers.start(2, 3)
    eventually(lambda: all(isr == {1, 2, 3} for _, _, isr in brokers.partitions(1, OFFSETS).values()))
    # From now on two must have what is committed.
    resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS)

    def min_isr() -> str:
        (found,) = brokers.admin(1).describe_configs([resource]).values()
        return str(found.result(WAIT_S)["min.insync.replicas"].value)

    eventually(lambda: min_isr() == "2")
