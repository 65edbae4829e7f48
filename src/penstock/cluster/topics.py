"""Creating, changing and deleting topics: checked, committed by the controller, and open here when it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from penstock.cluster.controller import ActiveController
from penstock.cluster.core.fleet import Broker
from penstock.cluster.core.image import INTERNAL_TOPICS, Image, PartitionImage, TopicImage
from penstock.cluster.core.moves import INTERNAL_REPLICATION_FACTOR
from penstock.cluster.core.placement import check_assignment, place
from penstock.cluster.core.topic_rules import check_name, check_partition_count
from penstock.cluster.topic_changes import TopicChanges
from penstock.config.fixed import FIXED_SETTINGS
from penstock.config.log import LogSettings
from penstock.config.setting import settings_of
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.coordination.interface import Store
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


@dataclass(frozen=True, slots=True)
class NewTopicDefaults:
    partition_count: int = 1
    replication_factor: int = 1


# Of a topic that is not made.
_NO_ID = UUID(int=0)

_CLEANUP_POLICY = "cleanup.policy"

# From everything that is set for a topic to everything that shall be.
ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str] | Refused]


class Elsewhere(Protocol):
    """The controller, when it is another broker."""

    def create(self, new: NewTopic, internal: bool) -> Awaitable[Refused | None]:
        """Done when this broker knows the topic too."""


class Topics:
    """Changes run one after another: each is a read and a write of the store."""

    def __init__(self, store: Store, image: Image, defaults: NewTopicDefaults, elsewhere: Elsewhere) -> None:
        self._store = store
        self._image = image
        self._defaults = defaults
        self._elsewhere = elsewhere
        self._controller: ActiveController | None = None
        self._changes: TopicChanges | None = None
        self._turn = asyncio.Lock()

    async def take_office(self, controller: ActiveController, unfinished: Sequence[str]) -> None:
        """This broker decides from now on, until that controller's term is over."""
        async with self._turn:
            changes = TopicChanges(self._store, controller)
            for name in unfinished:
                await changes.erase(name)
            self._controller, self._changes = controller, changes

    async def create(self, new: NewTopic, validate_only: bool = False) -> TopicImage | Refused:
        if new.name in INTERNAL_TOPICS:
            # With a client's idea of retention or partitions it would lose what it is there to keep.
            return Refused(Problem.INVALID_TOPIC_NAME, f"{new.name} is internal: the broker makes it when it is needed")
        return await self._create(new, validate_only)

    async def create_internal(self, new: NewTopic) -> TopicImage | Refused:
        """For the parts of the broker that keep their state in it."""
        if self._is_in_office and new.replication_factor == -1:
            takers = sum(broker.live and not broker.draining for broker in self.brokers())
            factor = max(1, min(INTERNAL_REPLICATION_FACTOR, takers))
            new = replace(new, replication_factor=factor, config=internal_config(new.config, factor))
        return await self._create(new, validate_only=False)

    async def ensure(self, new: NewTopic, internal: bool = False) -> Refused | None:
        """Whichever broker decides: the topic is there, and known here, or it is refused."""
        if self._is_in_office:
            created = await (self.create_internal(new) if internal else self.create(new))
            refused = created if isinstance(created, Refused) else None
        else:
            refused = await self._elsewhere.create(new, internal)
        return None if refused is None or refused.problem is Problem.TOPIC_ALREADY_EXISTS else refused

    async def _create(self, new: NewTopic, validate_only: bool) -> TopicImage | Refused:
        async with self._turn:
            try:
                changes = self._in_office()
                replicas = self._planned(new)
                if validate_only:
                    return self._preview(new, replicas)
                row = await changes.create(new.name, replicas, new.config)
                # What was committed exists, also if it could not be opened here: others may have written to it by
                # now. This broker tries again, and says in its health why it could not.
                failures = await changes.applied()
                if new.name in failures and (self._image.node_id,) in replicas:
                    text = f"{new.name} was made, but cannot be used before its files can: {failures[new.name]}"
                    return Refused(Problem.STORAGE_FAILED, text)
                return self._image.topic(row.name) or self._preview(new, replicas, row.topic_id)
            except PenstockError as error:
                return Refused.by(error)

    async def delete(self, name: str, topic_id: UUID | None = None) -> TopicImage | Refused:
        """`topic_id`: only if it is that one. Another may have its name by the time that this has its turn."""
        async with self._turn:
            if name in INTERNAL_TOPICS and self._image.topic(name) is not None:
                return Refused(Problem.INVALID_REQUEST, f"{name} is internal: the broker keeps its own state in it")
            try:
                changes = self._in_office()
                # Not by the image: one that could not be opened here can be deleted all the same.
                check_name(name)
                found = await changes.row(name)
                if found is None:
                    return _unknown(name)
                if topic_id not in (None, found[0].topic_id):
                    return Refused(Problem.UNKNOWN_TOPIC_ID, f"the topic with the id {topic_id} was deleted")
                topic = self._image.topic(name) or TopicImage(name, found[0].topic_id, (), found[0].config)
                await changes.erase(name)
                await changes.applied()
            except PenstockError as error:
                return _unknown(name) if error.problem is Problem.INVALID_TOPIC_NAME else Refused.by(error)
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
                changes = self._in_office()
                found = await changes.row(name)
                if found is None:
                    return _unknown(name)
                if found[0].partition_count != len(topic.partitions):
                    # It has grown, and what is new could not be opened here yet.
                    check_partition_count(count, found[0].partition_count)
                    return Refused(
                        Problem.STORAGE_FAILED, f"{name} has {found[0].partition_count} partitions, but not yet here"
                    )
                replicas = self._added(topic, count, assignments)
                if validate_only:
                    return self._preview(NewTopic(name, config=topic.config), replicas)
                await changes.grow(*found, replicas)
                return await self._shown(changes, name)
            except PenstockError as error:
                return Refused.by(error)

    async def configure(self, name: str, change: ConfigChange, validate_only: bool) -> TopicImage | Refused:
        """Nothing else changes the settings between what `change` is given and what it makes of them."""
        async with self._turn:
            topic = self._image.topic(name)
            if topic is None:
                return _unknown(name)
            try:
                changes = self._in_office()
                found = await changes.row(name)
                if found is None:
                    return _unknown(name)
                config = change(found[0].config)
                if isinstance(config, Refused):
                    return config
                check_config(config)
                if topic.is_internal and config.get(_CLEANUP_POLICY) != found[0].config.get(_CLEANUP_POLICY):
                    text = f"{name} is internal, and retention would delete what the broker keeps there: name its "
                    return Refused(Problem.INVALID_CONFIG, text + f"{_CLEANUP_POLICY} as it is")
                if validate_only:
                    return topic
                await changes.configure(found[0], config)
                return await self._shown(changes, name)
            except PenstockError as error:
                return Refused.by(error)

    @property
    def _is_in_office(self) -> bool:
        return self._controller is not None and not self._controller.is_over

    def _in_office(self) -> TopicChanges:
        if self._changes is None or not self._is_in_office:
            raise PenstockError(Problem.NOT_CONTROLLER, "this broker is not the controller")
        return self._changes

    async def _shown(self, changes: TopicChanges, name: str) -> TopicImage | Refused:
        failures = await changes.applied()
        if name in failures:
            return Refused.by(failures[name])
        return self._image.topic(name) or _unknown(name)

    def _preview(self, new: NewTopic, replicas: Sequence[tuple[int, ...]], topic_id: UUID = _NO_ID) -> TopicImage:
        """As it would be."""
        assert self._controller is not None
        settings = self._controller.defaults.of(new.config)
        states = self._in_office().states(replicas, settings)
        return TopicImage(new.name, topic_id, tuple(PartitionImage(state, 0) for state in states), dict(new.config))

    # Where replicas go

    def _planned(self, new: NewTopic) -> list[tuple[int, ...]]:
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
            check_assignment(self.brokers(), new.assignment)
            check_partition_count(len(new.assignment))
            return [tuple(new.assignment[partition]) for partition in range(len(new.assignment))]
        count = self._defaults.partition_count if new.partition_count == -1 else new.partition_count
        check_partition_count(count)
        factor = self._defaults.replication_factor if new.replication_factor == -1 else new.replication_factor
        return place(self.brokers(), count, factor)

    def _added(
        self, topic: TopicImage, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> list[tuple[int, ...]]:
        if topic.is_internal:
            raise PenstockError(Problem.INVALID_REQUEST, f"{topic.name} is internal: its partitions are fixed")
        there = len(topic.partitions)
        check_partition_count(count, there)
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            return place(self.brokers(), count - there, factor, [partition.replicas for partition in topic.partitions])
        if len(assignments) != count - there:
            text = f"{len(assignments)} assignments for {count - there} new partitions"
            raise PenstockError(Problem.INVALID_REPLICA_ASSIGNMENT, text)
        check_assignment(self.brokers(), dict(enumerate(assignments, there)), there, factor)
        return [tuple(replicas) for replicas in assignments]

    def brokers(self) -> list[Broker]:
        """As placement wants them. Only while in office."""
        assert self._controller is not None
        live, stopping, _ = self._controller.electorate
        replicas: dict[int, int] = {}
        leaders: dict[int, int] = {}
        for topic in self._image.topics():
            for partition in topic.partitions:
                leaders[partition.replicas[0]] = leaders.get(partition.replicas[0], 0) + 1
                for node_id in partition.replicas:
                    replicas[node_id] = replicas.get(node_id, 0) + 1
        return [
            Broker(
                node_id,
                "" if broker.registration is None else broker.registration.machine,
                None if broker.registration is None else broker.registration.rack,
                live=node_id in live and node_id not in stopping,
                draining=broker.state is not None and broker.state.draining,
                replicas=replicas.get(node_id, 0),
                leaders=leaders.get(node_id, 0),
            )
            for node_id, broker in sorted(self._controller.view.brokers.items())
        ]

    def _check_collision(self, name: str) -> None:
        """Metric names cannot tell '.' from '_', so two topics may not differ by that alone; Kafka's rule too."""
        for other in self._image.topics():
            if other.name.replace(".", "_") == name.replace(".", "_"):
                raise PenstockError(
                    Problem.INVALID_TOPIC_NAME, f"topic {name!r} collides with {other.name!r} in metrics"
                )


def internal_config(config: Mapping[str, str], replication_factor: int) -> Mapping[str, str]:
    """With all replicas that it can have, an internal topic does not count what only one of them has."""
    min_isr = 2 if replication_factor >= INTERNAL_REPLICATION_FACTOR else 1
    return {**config, "min.insync.replicas": str(min_isr)}


def check_config(config: Mapping[str, str]) -> None:
    known = {
        setting.name: setting for section in (LogSettings, TopicReplicationSettings) for setting in settings_of(section)
    }
    for name, text in config.items():
        if name in FIXED_SETTINGS:
            FIXED_SETTINGS[name].check(text)
            continue
        if name not in known:
            raise PenstockError(Problem.INVALID_CONFIG, f"unknown topic setting {name!r}; known: {', '.join(known)}")
        known[name].parse(text)


def _unknown(name: str) -> Refused:
    return Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
