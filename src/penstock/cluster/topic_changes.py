"""Changes of topics as transactions of the controller, each as large as a store takes.

What does not fit into one transaction goes in an order in which a crash leaves something that is found: the topic's
node says how many partitions count, and is changed last by what adds and first by what removes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID, uuid4

from penstock.cluster.controller import ActiveController
from penstock.cluster.core.delta import PartitionRow, RemovedRow, TopicRow
from penstock.cluster.core.draft import MAX_BYTES
from penstock.cluster.core.election import TopicSettings, new_partition
from penstock.cluster.core.events import TopicChanged, TopicConfigured, TopicRemoved
from penstock.cluster.core.view import PartitionNode, TopicView
from penstock.cluster.reading import topic_row_of
from penstock.cluster.showing import Failures
from penstock.coordination.interface import CHANGE_OVERHEAD_BYTES, Change, Create, Node, Remove, Replace, Store
from penstock.coordination.paths import (
    CONFIGS,
    PARTITION,
    TOPIC,
    ConfigValues,
    PartitionState,
    TopicState,
    partition_path,
    topic_config_path,
    topic_path,
)
from penstock.errors import PenstockError, Problem
from penstock.later import Later

Replicas = Sequence[tuple[int, ...]]
# A controller makes far fewer topics than this, so the generations of two never meet.
_GENERATIONS = 2**32
_TOLD_WITHIN_S = 1.0


class TopicChanges:
    """For one term of office. One change at a time; each is on disk, and told to everybody, when it returns."""

    def __init__(self, store: Store, controller: ActiveController) -> None:
        self._store = store
        self._controller = controller
        self._numbers = itertools.count(controller.office.epoch * _GENERATIONS)

    async def row(self, name: str) -> tuple[TopicRow, int] | None:
        """As it is in the store, with the version of the topic's node."""
        topic, config = await self._store.read_many([topic_path(name), topic_config_path(name)])
        return None if topic is None else (topic_row_of(name, topic, config), topic.version)

    def states(self, replicas: Replicas, settings: TopicSettings) -> list[PartitionState]:
        """Of new partitions, by who is alive now. Raises PenstockError where nobody is."""
        electorate = self._controller.electorate
        states = [new_partition(row, electorate, settings) for row in replicas]
        if any(state is None for state in states):
            raise PenstockError(Problem.INVALID_REPLICA_ASSIGNMENT, "none of the replicas of a partition is running")
        return [state for state in states if state is not None]

    async def create(self, name: str, replicas: Replicas, config: Mapping[str, str]) -> TopicRow:
        """What was left of one by this name that is half made or half removed goes first. One that is whole stays,

        whether or not this broker could open it.
        """
        found = await self.row(name)
        if found is not None:
            if found[0].partition_count:
                raise PenstockError(Problem.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
            await self.erase(name)
        settings = self._controller.defaults.of(config)
        row = TopicRow(name, uuid4(), next(self._numbers), len(replicas), dict(config), 0)
        config_change = Create(topic_config_path(name), CONFIGS.encode(ConfigValues(dict(config))))
        partitions = self._new_partitions(name, range(len(replicas)), replicas, settings, {})
        chunks = list(_chunks(partitions))
        whole = len(chunks) == 1
        first = Create(topic_path(name), _topic_data(row, len(replicas) if whole else 0))
        await self._transact([first, config_change, *chunks[0]], self._told(row, partitions) if whole else None)
        for chunk in chunks[1:-1]:
            await self._transact(chunk, None)
        if not whole:
            last = Replace(topic_path(name), _topic_data(row, len(replicas)), 0)
            await self._transact([*chunks[-1], last], self._told(row, partitions))
        return row

    async def grow(self, row: TopicRow, version: int, replicas: Replicas) -> TopicRow:
        numbers = range(row.partition_count, row.partition_count + len(replicas))
        left = await self._store.read_many([partition_path(row.name, number) for number in numbers])
        versions = {n: node.version for n, node in zip(numbers, left, strict=True) if node is not None}
        settings = self._controller.defaults.of(row.config)
        partitions = self._new_partitions(row.name, numbers, replicas, settings, versions)
        count = numbers.stop
        grown = TopicRow(row.name, row.topic_id, row.generation, count, row.config, row.config_version)
        chunks = list(_chunks(partitions))
        for chunk in chunks[:-1]:
            await self._transact(chunk, None)
        last = Replace(topic_path(row.name), _topic_data(row, count), version)
        await self._transact([*chunks[-1], last], self._told(grown, partitions))
        return grown

    async def configure(self, row: TopicRow, config: Mapping[str, str]) -> TopicRow:
        data = CONFIGS.encode(ConfigValues(dict(config)))
        version = row.config_version + 1
        changed = TopicRow(row.name, row.topic_id, row.generation, row.partition_count, dict(config), version)
        path, settings = topic_config_path(row.name), self._controller.defaults.of(config)

        is_synced = settings.acknowledges_unsynced or not self._acknowledges_unsynced(row)
        if not is_synced:
            # Before it is tried: nobody may hear whether it was done.
            self._controller.syncing[row.name] = changed

        def then() -> None:
            if is_synced:
                self._controller.syncing.pop(row.name, None)
                self._controller.tell(TopicConfigured(row.name, settings))
            else:
                self._controller.tell(TopicConfigured(row.name, settings._replace(acknowledges_unsynced=True)))
            self._applied = self._controller.publisher.publish(topics=[changed])
            if not is_synced:
                everywhere = self._applied.then(lambda _: self._controller.publisher.told())
                everywhere.map(lambda _: self._synced(changed, settings))

        change = Create(path, data) if row.config_version < 0 else Replace(path, data, row.config_version)
        await self._transact([change], then)
        return changed

    def _acknowledges_unsynced(self, row: TopicRow) -> bool:
        syncing = self._controller.syncing.get(row.name)
        if syncing is not None and syncing.topic_id == row.topic_id:
            return True
        return self._controller.defaults.of(row.config).acknowledges_unsynced

    def _synced(self, row: TopicRow, settings: TopicSettings) -> None:
        if self._controller.syncing.get(row.name) is row:
            del self._controller.syncing[row.name]
            if self._controller.view.topic_id(row.name) == row.topic_id:
                self._controller.tell(TopicConfigured(row.name, settings))

    async def erase(self, name: str) -> None:
        """All that there is of it, also of one that is half made or half removed."""
        numbers = [int(number) for number in await self._store.children(topic_path(name)) if number.isdigit()]
        topic, config = await self._store.read_many([topic_path(name), topic_config_path(name)])
        if topic is None:
            return
        state, version = TOPIC.decode(topic.data, topic_path(name)), topic.version
        ends: list[Change] = [] if config is None else [Remove(topic_config_path(name), config.version)]
        gone = self._gone(name, state.topic_id)
        # With versions that do not count: the core changes partitions until it hears that the topic is gone, and what
        # it has decided by then may come after that.
        chunks = list(_chunks([Remove(partition_path(name, number), 0) for number in numbers]))
        if len(chunks) > 1:
            mark = TOPIC.encode(TopicState(state.topic_id, 0, state.generation))
            await self._transact([Replace(topic_path(name), mark, version)], gone)
            for chunk in chunks[:-1]:
                await self._remove(chunk, [], None)
            version += 1
        await self._remove(chunks[-1], [*ends, Remove(topic_path(name), version)], gone if len(chunks) == 1 else None)

    async def _remove(self, chunk: Sequence[Change], ends: Sequence[Change], then: Callable[[], None] | None) -> None:
        paths = [change.path for change in chunk]

        def removals(found: Sequence[Node | None]) -> list[Change]:
            there = [Remove(path, node.version) for path, node in zip(paths, found, strict=True) if node is not None]
            return [*there, *ends]

        await self._controller.transact(removals, then or _nothing, paths)

    async def applied(self) -> Failures:
        """Of the last change: what could not be opened here. Waits until all that can be opened is, and a little for

        the other brokers: a client that asks one of them next should find what it was told is there.
        """
        failures = await self._applied.wait()
        try:
            async with asyncio.timeout(_TOLD_WITHIN_S):
                await self._controller.publisher.told().wait()
        except TimeoutError:
            # Some broker is slow, or paused: it gets to know when it is back.
            return failures
        return failures

    _applied: Later[Failures] = Later.of({})

    async def _transact(self, changes: Sequence[Change], then: Callable[[], None] | None) -> None:
        await self._controller.transact(lambda _: changes, then or _nothing, ())

    def _new_partitions(
        self, name: str, numbers: range, replicas: Replicas, settings: TopicSettings, left: Mapping[int, int]
    ) -> list[Create | Replace]:
        changes: list[Create | Replace] = []
        for number, state in zip(numbers, self.states(replicas, settings), strict=True):
            path, data = partition_path(name, number), PARTITION.encode(state)
            changes.append(Replace(path, data, left[number]) if number in left else Create(path, data))
        return changes

    def _told(self, row: TopicRow, partitions: Sequence[Create | Replace]) -> Callable[[], None]:
        """`partitions` are all that are new, in order."""
        first = row.partition_count - len(partitions)

        def then() -> None:
            nodes = {
                first + position: PartitionNode(
                    PARTITION.decode(change.data, change.path), change.version + 1 if isinstance(change, Replace) else 0
                )
                for position, change in enumerate(partitions)
            }
            settings = self._controller.defaults.of(row.config)
            rows = [PartitionRow(row.name, row.topic_id, number, *node) for number, node in nodes.items()]
            self._applied = self._controller.publisher.publish(topics=[row], partitions=rows)
            self._controller.tell(TopicChanged(TopicView(row.name, row.topic_id, settings, nodes)))

        return then

    def _gone(self, name: str, topic_id: UUID) -> Callable[[], None]:
        def then() -> None:
            self._controller.tell(TopicRemoved(name))
            self._applied = self._controller.publisher.publish(removed=[RemovedRow(name, topic_id)])

        return then


def _nothing() -> None:
    pass


def _topic_data(row: TopicRow, partition_count: int) -> bytes:
    return TOPIC.encode(TopicState(row.topic_id, partition_count, row.generation))


def _chunks(changes: Sequence[Change]) -> Iterator[list[Change]]:
    chunk: list[Change] = []
    size = 0
    for change in changes:
        if size + _size(change) > MAX_BYTES and chunk:
            yield chunk
            chunk, size = [], 0
        chunk.append(change)
        size += _size(change)
    yield chunk


def _size(change: Change) -> int:
    data = change.data if isinstance(change, Create | Replace) else b""
    return len(change.path) + len(data) + CHANGE_OVERHEAD_BYTES
