"""Creating, changing and deleting topics: a checked, atomic change of the store first, then of the image, then of
whoever follows it. What is answered is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import uuid4

import msgspec

from penstock.cluster.core.image import INTERNAL_TOPICS, Image, PartitionImage, TopicImage
from penstock.cluster.core.topic_rules import check_name, check_partition_count
from penstock.config.fixed import FIXED_SETTINGS
from penstock.config.log import LogSettings
from penstock.config.setting import settings_of
from penstock.coordination.interface import Change, Create, Node, Remove, Replace, Store
from penstock.coordination.paths import (
    CONFIGS,
    TOPIC,
    TOPICS,
    ConfigValues,
    PartitionState,
    TopicState,
    topic_config_path,
    topic_path,
)
from penstock.errors import PenstockError, Problem, Refused


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    # -1: the broker's default
    partition_count: int = -1
    replication_factor: int = -1
    # Replicas by partition; empty: the broker places them.
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)


# From everything that is set for a topic to everything that shall be.
ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str] | Refused]


class Follower(Protocol):
    """Keeps something in step with the topics; awaited before the change is answered."""

    def open_topic(self, topic: TopicImage) -> Awaitable[None]: ...

    def drop_topic(self, name: str) -> Awaitable[None]: ...


class Topics:
    """Changes run one after another: each is a read and a write of the store."""

    def __init__(self, store: Store, image: Image, node_id: int, default_partition_count: int) -> None:
        self._store = store
        self._image = image
        self._node_id = node_id
        self._default_partition_count = default_partition_count
        self._followers: list[Follower] = []
        self._turn = asyncio.Lock()

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    async def load(self, new_epochs: bool) -> None:
        """At start: what the store holds, into the image and to all followers; with `new_epochs`, every partition

        begins a new leader epoch first.
        """
        for name in await self._store.children(TOPICS):
            node = await self._store.read(topic_path(name))
            if node is not None:
                topic = _image_of(name, node, await self._config_of(name))
                if new_epochs:
                    topic = replace(topic, partitions=tuple(map(_in_next_epoch, topic.partitions)))
                    await self._store.commit([Replace(topic_path(name), TOPIC.encode(_state_of(topic)), node.version)])
                await self._show(topic)

    async def create(self, new: NewTopic, validate_only: bool = False) -> TopicImage | Refused:
        if new.name in INTERNAL_TOPICS:
            # With a client's idea of retention or partitions it would lose what it is there to keep.
            return Refused(Problem.INVALID_TOPIC_NAME, f"{new.name} is internal: the broker makes it when it is needed")
        return await self._create(new, validate_only)

    async def create_internal(self, new: NewTopic) -> TopicImage | Refused:
        """For the parts of the broker that keep their state in it."""
        return await self._create(new, validate_only=False)

    async def _create(self, new: NewTopic, validate_only: bool) -> TopicImage | Refused:
        async with self._turn:
            try:
                topic = self._planned(new)
                if not validate_only:
                    await self._write_new(topic)
                    await self._show_new(topic)
            except PenstockError as error:
                return Refused.by(error)
            return topic

    async def delete(self, name: str) -> TopicImage | Refused:
        async with self._turn:
            topic = self._image.topic(name)
            if topic is None:
                return _unknown(name)
            if topic.is_internal:
                return Refused(Problem.INVALID_REQUEST, f"{name} is internal: all that groups have committed is in it")
            try:
                await self._erase(name)
            except PenstockError as error:
                return Refused.by(error)
            self._image.remove(name)
            for follower in self._followers:
                await follower.drop_topic(name)
            return topic

    async def grow(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, validate_only: bool
    ) -> TopicImage | Refused:
        """To `count` partitions in all."""
        async with self._turn:
            topic = self._image.topic(name)
            if topic is None:
                return _unknown(name)
            try:
                if topic.is_internal:
                    raise PenstockError(Problem.INVALID_REQUEST, f"{name} is internal: its partitions are fixed")
                check_partition_count(count, len(topic.partitions))
                added = count - len(topic.partitions)
                if assignments is not None and len(assignments) != added:
                    raise PenstockError(
                        Problem.INVALID_REPLICA_ASSIGNMENT, f"{len(assignments)} assignments for {added} new partitions"
                    )
                for replicas in assignments or ():
                    self._check_replicas(replicas)
                grown = replace(topic, partitions=topic.partitions + (self._partition(),) * added)
                if not validate_only:
                    node, _ = await self._nodes(name)
                    await self._store.commit([Replace(topic_path(name), TOPIC.encode(_state_of(grown)), node.version)])
                    await self._show(grown)
            except PenstockError as error:
                return Refused.by(error)
            return grown

    async def configure(self, name: str, change: ConfigChange, validate_only: bool) -> TopicImage | Refused:
        """Nothing else changes the settings between what `change` is given and what it makes of them."""
        async with self._turn:
            topic = self._image.topic(name)
            if topic is None:
                return _unknown(name)
            config = change(topic.config)
            if isinstance(config, Refused):
                return config
            try:
                check_config(config)
                changed = replace(topic, config=dict(config))
                if not validate_only:
                    _, node = await self._nodes(name)
                    data = CONFIGS.encode(ConfigValues(dict(config)))
                    await self._store.commit([Replace(topic_config_path(name), data, node.version)])
                    await self._show(changed)
            except PenstockError as error:
                return Refused.by(error)
            return changed

    async def _write_new(self, topic: TopicImage) -> None:
        """Over what a creation left behind that failed half-way and could not be undone either."""
        rows = (
            (topic_path(topic.name), TOPIC.encode(_state_of(topic))),
            (topic_config_path(topic.name), CONFIGS.encode(ConfigValues(dict(topic.config)))),
        )
        changes: list[Change] = []
        for path, data in rows:
            left = await self._store.read(path)
            changes.append(Create(path, data) if left is None else Replace(path, data, left.version))
        await self._store.commit(changes)

    async def _show_new(self, topic: TopicImage) -> None:
        """A topic whose files cannot be made does not stay: who asked for it was refused."""
        try:
            await self._show(topic)
        except PenstockError:
            for follower in self._followers:
                await follower.drop_topic(topic.name)
            with suppress(PenstockError):
                await self._erase(topic.name)
            raise

    async def _erase(self, name: str) -> None:
        topic, config = await self._nodes(name)
        await self._store.commit(
            [Remove(topic_path(name), topic.version), Remove(topic_config_path(name), config.version)]
        )

    def _planned(self, new: NewTopic) -> TopicImage:
        check_name(new.name)
        if self._image.topic(new.name) is not None:
            raise PenstockError(Problem.TOPIC_ALREADY_EXISTS, f"topic {new.name!r} exists already")
        self._check_collision(new.name)
        check_config(new.config)
        if new.assignment:
            if new.partition_count != -1 or new.replication_factor != -1:
                raise PenstockError(
                    Problem.INVALID_REQUEST, "give either an assignment or partition count and replication factor"
                )
            if sorted(new.assignment) != list(range(len(new.assignment))):
                raise PenstockError(
                    Problem.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without gaps"
                )
            for replicas in new.assignment.values():
                self._check_replicas(replicas)
            count = len(new.assignment)
        else:
            if new.replication_factor not in (-1, 1):
                raise PenstockError(
                    Problem.INVALID_REPLICATION_FACTOR,
                    f"replication factor {new.replication_factor}: there are {len(self._image.brokers)} brokers",
                )
            count = self._default_partition_count if new.partition_count == -1 else new.partition_count
        check_partition_count(count)
        return TopicImage(new.name, uuid4(), (self._partition(),) * count, dict(new.config))

    def _check_collision(self, name: str) -> None:
        """Metric names cannot tell '.' from '_', so two topics may not differ by that alone; Kafka's rule too."""
        for other in self._image.topics():
            if other.name.replace(".", "_") == name.replace(".", "_"):
                raise PenstockError(
                    Problem.INVALID_TOPIC_NAME, f"topic {name!r} collides with {other.name!r} in metrics"
                )

    def _check_replicas(self, replicas: Sequence[int]) -> None:
        if not replicas or len(set(replicas)) != len(replicas) or not set(replicas) <= set(self._image.brokers):
            raise PenstockError(
                Problem.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(replicas)} are not distinct live brokers"
            )

    def _partition(self) -> PartitionImage:
        return PartitionImage(PartitionState(self._node_id, 0, (self._node_id,), (self._node_id,)), 0)

    async def _nodes(self, name: str) -> tuple[Node, Node]:
        topic, config = await self._store.read(topic_path(name)), await self._store.read(topic_config_path(name))
        if topic is None or config is None:
            raise PenstockError(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return topic, config

    async def _config_of(self, name: str) -> Mapping[str, str]:
        node = await self._store.read(topic_config_path(name))
        return {} if node is None else CONFIGS.decode(node.data, topic_config_path(name)).values

    async def _show(self, topic: TopicImage) -> None:
        """Followers first: a topic is announced when it can be written to."""
        for follower in self._followers:
            await follower.open_topic(topic)
        self._image.put(topic)


def check_config(config: Mapping[str, str]) -> None:
    known = {setting.name: setting for setting in settings_of(LogSettings)}
    for name, text in config.items():
        if name in FIXED_SETTINGS:
            FIXED_SETTINGS[name].check(text)
            continue
        if name not in known:
            raise PenstockError(Problem.INVALID_CONFIG, f"unknown topic setting {name!r}; known: {', '.join(known)}")
        known[name].parse(text)


def _in_next_epoch(partition: PartitionImage) -> PartitionImage:
    state = msgspec.structs.replace(partition.state, leader_epoch=partition.leader_epoch + 1)
    return PartitionImage(state, partition.version + 1)


def _unknown(name: str) -> Refused:
    return Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")


def _state_of(topic: TopicImage) -> TopicState:
    return TopicState(topic.id, tuple(partition.state for partition in topic.partitions))


def _image_of(name: str, node: Node, config: Mapping[str, str]) -> TopicImage:
    state = TOPIC.decode(node.data, topic_path(name))
    partitions = tuple(PartitionImage(partition, node.version) for partition in state.partitions)
    return TopicImage(name, state.topic_id, partitions, config)
