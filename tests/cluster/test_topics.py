"""Creating, changing and deleting topics: refusals that change nothing, changes that survive."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

import pytest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode
from tests.bad_input.requests import timeout
from tests.cluster.running import DEFAULT_PARTITIONS, Cluster, alive
from tests.disk.power import PowerCutDisk
from tests.replication.world import deleted, values_in

from penstock.broker.api import Caller
from penstock.broker.apis.delete_topics import DeleteTopics
from penstock.cluster.core.image import TopicImage
from penstock.cluster.topics import ConfigChange, NewTopic
from penstock.errors import Problem, Refused


def facts(topic: TopicImage) -> tuple[str, str, int, list[tuple[str, str]]]:
    """What another life of the broker changes nothing about."""
    return topic.name, str(topic.id), len(topic.partitions), sorted(topic.config.items())


def test_a_topic_is_what_was_asked_for_and_survives_a_restart() -> None:
    memory = PowerCutDisk()
    made: list[TopicImage] = []

    async def create(running: Cluster) -> None:
        made.append(await running.made("orders", 3, **{"retention.ms": "1000"}))
        made.append(await running.made("defaults", -1))
        assigned = await running.topics.create(NewTopic("assigned", assignment={0: [1], 1: [1], 2: [1]}))
        assert isinstance(assigned, TopicImage)
        made.append(assigned)
        assert [len(topic.partitions) for topic in made] == [3, DEFAULT_PARTITIONS, 3]
        assert running.partition("orders", 2).log.settings.retention_ms == 1000

    async def look(running: Cluster) -> None:
        assert sorted(map(facts, running.image.topics())) == sorted(map(facts, made))
        found = running.image.topic_by_id(made[0].id)
        assert found is not None and facts(found) == facts(made[0])
        assert running.partition("orders", 2).log.settings.retention_ms == 1000

    alive(memory, create)
    memory.cut_power(Random(1))
    alive(memory, look)


REFUSALS = [
    (NewTopic(""), Problem.INVALID_TOPIC_NAME),
    (NewTopic(".."), Problem.INVALID_TOPIC_NAME),
    (NewTopic("a/b"), Problem.INVALID_TOPIC_NAME),
    (NewTopic("x" * 250), Problem.INVALID_TOPIC_NAME),
    (NewTopic("there.is"), Problem.TOPIC_ALREADY_EXISTS),
    (NewTopic("there_is"), Problem.INVALID_TOPIC_NAME),
    (NewTopic("orders", 0), Problem.INVALID_PARTITIONS),
    (NewTopic("orders", -2), Problem.INVALID_PARTITIONS),
    (NewTopic("orders", 10_001), Problem.INVALID_PARTITIONS),
    (NewTopic("orders", 1, 2), Problem.INVALID_REPLICATION_FACTOR),
    (NewTopic("orders", 1, 0), Problem.INVALID_REPLICATION_FACTOR),
    (NewTopic("orders", assignment={0: [1], 2: [1]}), Problem.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("orders", assignment={0: [2]}), Problem.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("orders", assignment={0: [1, 1]}), Problem.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("orders", assignment={0: []}), Problem.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("orders", 1, assignment={0: [1]}), Problem.INVALID_REQUEST),
    (NewTopic("orders", config={"no.such.setting": "1"}), Problem.INVALID_CONFIG),
    (NewTopic("orders", config={"retention.ms": "soon"}), Problem.INVALID_CONFIG),
    (NewTopic("orders", config={"cleanup.policy": "burn"}), Problem.INVALID_CONFIG),
]


@pytest.mark.parametrize(("new", "problem"), REFUSALS)
def test_a_refused_topic_leaves_nothing_behind(new: NewTopic, problem: Problem) -> None:
    memory = PowerCutDisk()

    async def refuse(running: Cluster) -> None:
        await running.made("there.is")
        for validate_only in (True, False):
            answer = await running.topics.create(new, validate_only)
            assert isinstance(answer, Refused)
            assert answer.problem is problem
            assert answer.text
        assert running.names() == ["there.is"]

    async def look(running: Cluster) -> None:
        assert running.names() == ["there.is"]

    alive(memory, refuse)
    alive(memory, look)


def replaced_by(config: Mapping[str, str]) -> ConfigChange:
    return lambda _: config


def test_validation_alone_changes_nothing() -> None:
    async def use(running: Cluster) -> None:
        assert isinstance(await running.topics.create(NewTopic("orders", 3), validate_only=True), TopicImage)
        assert running.names() == []
        before = await running.made("orders", 3)
        assert isinstance(await running.topics.grow("orders", 5, None, validate_only=True), TopicImage)
        change = replaced_by({"retention.ms": "1"})
        assert isinstance(await running.topics.configure("orders", change, validate_only=True), TopicImage)
        assert running.image.topic("orders") == before
        assert running.partition("orders").log.settings.retention_ms != 1

    alive(PowerCutDisk(), use)


def test_who_deletes_a_topic_by_its_id_does_not_delete_the_next_one_of_its_name() -> None:
    async def use(running: Cluster) -> None:
        before = await running.made("orders")
        asked = DeleteTopicState(name=None, topic_id=before.id)
        deleting = asyncio.create_task(running.topics.delete("orders"))
        making = asyncio.create_task(running.topics.create(NewTopic("orders")))
        by_id = DeleteTopics(running.image, running.topics).start(
            DeleteTopicsRequest(topics=(asked,), timeout=timeout(1000)), Caller("client", "broker", 0)
        )
        deleted, made, answer = await deleting, await making, await by_id.wait()
        assert isinstance(deleted, TopicImage) and isinstance(made, TopicImage)
        assert [row.error_code for row in answer.responses] == [ErrorCode.unknown_topic_id]
        assert running.image.topic("orders") == made != before

    alive(PowerCutDisk(), use)


def test_of_many_who_change_settings_at_once_none_is_lost() -> None:
    names = ["retention.ms", "retention.bytes", "segment.ms", "flush.ms", "delete.retention.ms", "flush.messages"]

    def adding(name: str) -> ConfigChange:
        return lambda current: {**current, name: "7000"}

    async def use(running: Cluster) -> None:
        await running.made("orders", 1)
        await asyncio.gather(*(running.topics.configure("orders", adding(name), validate_only=False) for name in names))
        topic = running.image.topic("orders")
        assert topic is not None and topic.config == dict.fromkeys(names, "7000")

    alive(PowerCutDisk(), use)


def test_a_change_may_refuse() -> None:
    refusal = Refused(Problem.INVALID_REQUEST, "not today")

    async def use(running: Cluster) -> None:
        before = await running.made("orders", 1)
        assert await running.topics.configure("orders", lambda _: refusal, validate_only=False) == refusal
        assert running.image.topic("orders") == before

    alive(PowerCutDisk(), use)


def test_of_many_who_create_the_same_topic_one_succeeds() -> None:
    async def use(running: Cluster) -> None:
        answers = await asyncio.gather(*(running.topics.create(NewTopic("orders", 1)) for _ in range(10)))
        refused = [answer for answer in answers if isinstance(answer, Refused)]
        assert {answer.problem for answer in refused} == {Problem.TOPIC_ALREADY_EXISTS}
        assert len(refused) == 9

    alive(PowerCutDisk(), use)


def test_a_topic_made_anew_is_another_one() -> None:
    memory = PowerCutDisk()

    async def use(running: Cluster) -> None:
        old = await running.made("orders")
        running.node.write(running.partition("orders"), b"old")
        await running.node.flusher.drained(list(running.node.replicas))
        assert isinstance(await running.topics.delete("orders"), TopicImage)
        assert running.names() == []
        gone = running.node.replicas.find("orders", 0)
        assert isinstance(gone, Refused) and gone.problem is Problem.UNKNOWN_TOPIC_OR_PARTITION
        again = await running.topics.delete("orders")
        assert isinstance(again, Refused) and again.problem is Problem.UNKNOWN_TOPIC_OR_PARTITION
        new = await running.made("orders")
        assert new.id != old.id
        assert running.image.topic_by_id(old.id) is None
        assert values_in(running.partition("orders")) == []

    async def look(running: Cluster) -> None:
        assert values_in(running.partition("orders")) == []
        assert isinstance(await running.topics.delete("orders"), TopicImage)

    async def look_again(running: Cluster) -> None:
        assert running.names() == []

    alive(memory, use)
    alive(memory, look)
    memory.cut_power(Random(1))
    alive(memory, look_again)


def test_partitions_are_added_and_never_taken_away() -> None:
    memory = PowerCutDisk()

    async def grow(running: Cluster) -> None:
        topic = await running.made("orders", 2)
        running.node.write(running.partition("orders", 1), b"before")
        await running.node.flusher.drained(list(running.node.replicas))
        for count in (2, 1, 0):
            refused = await running.topics.grow("orders", count, None, validate_only=False)
            assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_PARTITIONS
        for assignments in ([[1]], [[1], [7]]):
            refused = await running.topics.grow("orders", 4, assignments, validate_only=False)
            assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_REPLICA_ASSIGNMENT
        unknown = await running.topics.grow("invoices", 4, None, validate_only=False)
        assert isinstance(unknown, Refused) and unknown.problem is Problem.UNKNOWN_TOPIC_OR_PARTITION
        grown = await running.topics.grow("orders", 4, [[1], [1]], validate_only=False)
        assert isinstance(grown, TopicImage)
        assert (grown.id, len(grown.partitions)) == (topic.id, 4)
        await running.topics.create_internal(NewTopic("__consumer_offsets", 2))
        internal = await running.topics.grow("__consumer_offsets", 4, None, validate_only=False)
        assert isinstance(internal, Refused) and internal.problem is Problem.INVALID_REQUEST

    async def look(running: Cluster) -> None:
        assert values_in(running.partition("orders", 1)) == [b"before"]
        assert values_in(running.partition("orders", 3)) == []

    alive(memory, grow)
    memory.cut_power(Random(1))
    alive(memory, look)


def test_an_internal_topic_stays_compacted() -> None:
    """Settings that are replaced as a whole would leave it to retention, and coordinators would forget."""

    async def use(running: Cluster) -> None:
        config = {"cleanup.policy": "compact", "segment.bytes": "4096"}
        await running.topics.create_internal(NewTopic("__transaction_state", 1, config=config))
        for lost in ({}, {"retention.ms": "1000"}, {"cleanup.policy": "delete"}, {"cleanup.policy": "compact,delete"}):
            refused = await running.topics.configure("__transaction_state", replaced_by(lost), validate_only=False)
            assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_CONFIG
        kept = {"cleanup.policy": "compact", "segment.bytes": "8192"}
        changed = await running.topics.configure("__transaction_state", replaced_by(kept), validate_only=False)
        assert isinstance(changed, TopicImage)
        assert running.partition("__transaction_state").log.settings.cleanup_policy == "compact"
        assert running.partition("__transaction_state").log.settings.segment_bytes == 8192

    alive(PowerCutDisk(), use)


def test_settings_count_at_once_and_replace_those_before() -> None:
    memory = PowerCutDisk()

    async def configure(running: Cluster) -> None:
        await running.made("orders", 1, **{"retention.ms": "1000"})
        refused = await running.topics.configure("orders", replaced_by({"retention.ms": "-5"}), validate_only=False)
        assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_CONFIG
        assert running.partition("orders").log.settings.retention_ms == 1000
        changed = await running.topics.configure("orders", replaced_by({"segment.bytes": "4096"}), validate_only=False)
        assert isinstance(changed, TopicImage)
        unknown = await running.topics.configure("invoices", replaced_by({}), validate_only=False)
        assert isinstance(unknown, Refused) and unknown.problem is Problem.UNKNOWN_TOPIC_OR_PARTITION
        look(running)

    def look(running: Cluster) -> None:
        settings = running.partition("orders").log.settings
        assert (settings.segment_bytes, settings.retention_ms) == (4096, 14 * 24 * 3600 * 1000)

    async def look_again(running: Cluster) -> None:
        look(running)

    alive(memory, configure)
    memory.cut_power(Random(1))
    alive(memory, look_again)


def test_the_brokers_own_topics_are_not_for_clients_to_make_or_delete() -> None:
    async def use(running: Cluster) -> None:
        refused = await running.topics.create(NewTopic("__consumer_offsets", 1))
        assert isinstance(refused, Refused) and refused.problem is Problem.INVALID_TOPIC_NAME
        made = await running.topics.create_internal(NewTopic("__consumer_offsets", 2))
        assert not isinstance(made, Refused) and made.is_internal
        kept = await running.topics.delete("__consumer_offsets")
        assert isinstance(kept, Refused) and kept.problem is Problem.INVALID_REQUEST
        untouched = await deleted(running.node.replicas, "__consumer_offsets", -1)
        assert isinstance(untouched, Refused) and untouched.problem is Problem.INVALID_TOPIC_NAME

    alive(PowerCutDisk(), use)


def test_records_of_a_compacted_topic_are_not_deleted_by_offset() -> None:
    async def use(running: Cluster) -> None:
        await running.topics.create(NewTopic("latest", 1, config={"cleanup.policy": "compact"}))
        refused = await deleted(running.node.replicas, "latest", -1)
        assert isinstance(refused, Refused) and refused.problem is Problem.POLICY_VIOLATION

    alive(PowerCutDisk(), use)


def test_while_files_of_a_deleted_topic_go_other_changes_are_carried_out() -> None:
    async def use(running: Cluster) -> None:
        await running.made("old")
        running.node.disk.directories_may_go.clear()
        try:
            assert isinstance(await running.topics.delete("old"), TopicImage)
            await running.made("old")
            assert values_in(running.partition("old")) == []
        finally:
            running.node.disk.directories_may_go.set()
        while running.node.disk.list_directory("/data/deleted"):
            await asyncio.sleep(0.001)

    alive(PowerCutDisk(), use)
