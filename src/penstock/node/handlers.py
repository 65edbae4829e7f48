"""The table of APIs: every handler with what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock.broker.api import Handler
from penstock.broker.apis.add_offsets_to_txn import AddOffsetsToTxn
from penstock.broker.apis.add_partitions_to_txn import AddPartitionsToTxn
from penstock.broker.apis.alter_configs import AlterConfigs
from penstock.broker.apis.alter_partition_reassignments import AlterPartitionReassignments
from penstock.broker.apis.api_versions import ApiVersions
from penstock.broker.apis.audit import Audit
from penstock.broker.apis.consumer_group_describe import ConsumerGroupDescribe
from penstock.broker.apis.consumer_group_heartbeat import ConsumerGroupHeartbeat
from penstock.broker.apis.create_partitions import CreatePartitions
from penstock.broker.apis.create_topics import CreateTopics
from penstock.broker.apis.delete_groups import DeleteGroups
from penstock.broker.apis.delete_records import DeleteRecords
from penstock.broker.apis.delete_topics import DeleteTopics
from penstock.broker.apis.describe_cluster import DescribeCluster
from penstock.broker.apis.describe_configs import DescribeConfigs
from penstock.broker.apis.describe_groups import DescribeGroups
from penstock.broker.apis.describe_log_dirs import DescribeLogDirs
from penstock.broker.apis.describe_producers import DescribeProducers
from penstock.broker.apis.describe_topic_partitions import DescribeTopicPartitions
from penstock.broker.apis.describe_transactions import DescribeTransactions
from penstock.broker.apis.elect_leaders import ElectLeaders
from penstock.broker.apis.end_txn import EndTxn
from penstock.broker.apis.fetch import Fetch
from penstock.broker.apis.find_coordinator import FindCoordinator
from penstock.broker.apis.heartbeat import Heartbeat
from penstock.broker.apis.incremental_alter_configs import IncrementalAlterConfigs
from penstock.broker.apis.init_producer_id import InitProducerId
from penstock.broker.apis.join_group import JoinGroup
from penstock.broker.apis.leave_group import LeaveGroup
from penstock.broker.apis.list_groups import ListGroups
from penstock.broker.apis.list_offsets import ListOffsets
from penstock.broker.apis.list_partition_reassignments import ListPartitionReassignments
from penstock.broker.apis.list_transactions import ListTransactions
from penstock.broker.apis.metadata import Metadata
from penstock.broker.apis.offset_commit import OffsetCommit
from penstock.broker.apis.offset_delete import OffsetDelete
from penstock.broker.apis.offset_fetch import OffsetFetch
from penstock.broker.apis.offset_for_leader_epoch import OffsetForLeaderEpoch
from penstock.broker.apis.operator import Operator
from penstock.broker.apis.private import Private
from penstock.broker.apis.produce import Produce
from penstock.broker.apis.query import Query
from penstock.broker.apis.sync_group import SyncGroup
from penstock.broker.apis.txn_offset_commit import TxnOffsetCommit
from penstock.broker.apis.unregister_broker import UnregisterBroker
from penstock.broker.apis.write_txn_markers import WriteTxnMarkers
from penstock.broker.audit_files import AuditFiles
from penstock.broker.config_resources import ConfigResources
from penstock.broker.config_rows import TopicConfigs
from penstock.broker.current_leaders import CurrentLeaders
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.fetch_usage import FetchUsage
from penstock.broker.reply_memory import ReplyMemory
from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.cluster.topics import Topics
from penstock.config.settings import Settings
from penstock.coordination.producer_ids import ProducerIds
from penstock.groups.coordinator import Groups
from penstock.node.cluster import ClusterNode
from penstock.replication.move_throttles import MoveThrottles, Side
from penstock.replication.replicas import Replicas
from penstock.replication.verification import Verification
from penstock.telemetry.usage import Usage
from penstock.transactions.coordinator import Transactions
from penstock.transactions.questions import Questions
from penstock.wire.schemas import api_name


@dataclass(frozen=True)
class Parts:
    """What the handlers are made from."""

    cluster: ClusterNode
    replicas: Replicas
    groups: Groups
    transactions: Transactions
    producer_ids: ProducerIds
    reply_memory: ReplyMemory
    usage: Usage
    pool: ThreadPoolExecutor
    clock: Clock

    @property
    def image(self) -> Image:
        return self.cluster.image

    @property
    def topics(self) -> Topics:
        return self.cluster.topics


def handlers_of(parts: Parts, settings: Settings) -> list[Handler]:
    questions = Questions(parts.image, parts.transactions, parts.cluster.peers, parts.groups.partition_of, parts.clock)
    served: list[Handler] = [
        *_data(parts, questions, settings),
        *_groups(parts, settings),
        *_transactions(parts, questions, settings),
        *_administration(parts, settings),
    ]
    served.append(Private(parts.cluster.answering))
    return [ApiVersions([handler.api for handler in served]), *served]


def _data(parts: Parts, questions: Questions, settings: Settings) -> Sequence[Handler]:
    replicas, clock, leaders = parts.replicas, parts.clock, CurrentLeaders(parts.image)
    gives = MoveThrottles(parts.image, settings.replication, settings.topic_replication, Side.LEADER)
    verification = Verification(replicas, questions, clock)
    served = FetchUsage(parts.usage.of_api(api_name(Fetch.api.key)))
    return [
        Produce(replicas, verification, leaders, parts.usage.of_api(api_name(Produce.api.key)), clock),
        Fetch(replicas, parts.image, FetchSessions(), parts.reply_memory, gives, served, parts.pool, clock),
        ListOffsets(replicas, parts.pool),
        OffsetForLeaderEpoch(replicas),
        InitProducerId(parts.producer_ids, parts.transactions),
        Metadata(parts.image, parts.topics, settings.topics.auto_create_topics_enable),
    ]


def _groups(parts: Parts, settings: Settings) -> Sequence[Handler]:
    groups, image = parts.groups, parts.image
    return [
        FindCoordinator(
            groups,
            parts.transactions,
            image,
            settings.groups.offsets_topic_num_partitions,
            settings.transactions.state_log_num_partitions,
        ),
        JoinGroup(groups),
        SyncGroup(groups),
        Heartbeat(groups),
        LeaveGroup(groups),
        OffsetCommit(groups, image),
        OffsetFetch(groups, image),
        OffsetDelete(groups, image),
        DescribeGroups(groups),
        ListGroups(groups),
        DeleteGroups(groups),
        ConsumerGroupHeartbeat(groups),
        ConsumerGroupDescribe(groups),
    ]


def _transactions(parts: Parts, questions: Questions, settings: Settings) -> Sequence[Handler]:
    groups, transactions, image = parts.groups, parts.transactions, parts.image
    return [
        AddPartitionsToTxn(transactions, image),
        AddOffsetsToTxn(transactions, groups, settings.groups.offsets_topic_num_partitions),
        TxnOffsetCommit(groups, image, questions),
        EndTxn(transactions),
        Query(transactions),
        WriteTxnMarkers(),
        ListTransactions(transactions),
        DescribeTransactions(transactions),
    ]


def _administration(parts: Parts, settings: Settings) -> Sequence[Handler]:
    image, topics, replicas = parts.image, parts.topics, parts.replicas
    topic_configs = TopicConfigs(settings.log, settings.topic_replication)
    sections = [section for _, section in settings.sections()]
    files = AuditFiles(replicas, parts.pool, parts.clock, settings.audit.bytes_per_second)
    resources = ConfigResources(image, topics, parts.cluster.operations, topic_configs, sections)
    return [
        CreateTopics(topics, topic_configs),
        DeleteTopics(image, topics),
        CreatePartitions(topics),
        DeleteRecords(replicas.deletion),
        DescribeConfigs(resources),
        AlterConfigs(resources),
        IncrementalAlterConfigs(resources),
        DescribeCluster(image),
        DescribeTopicPartitions(image),
        DescribeLogDirs(replicas),
        DescribeProducers(replicas),
        AlterPartitionReassignments(image, parts.cluster.operations),
        ListPartitionReassignments(parts.cluster.operations),
        ElectLeaders(parts.cluster.operations),
        UnregisterBroker(parts.cluster.operations),
        Operator(parts.cluster.operating),
        Audit(files, settings.audit.token),
    ]
