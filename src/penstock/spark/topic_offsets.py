"""Where the logs that a query reads begin and end, asked of the cluster."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.config.address import Address
from penstock.spark.cluster import Cluster
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import TopicMissing
from penstock.spark.core.positions import EARLIEST, LATEST, Everywhere, Position, resolve
from penstock.spark.core.source_offset import SourceOffset
from penstock.spark.core.source_options import SourceOptions
from penstock.spark.core.topic_partition import TopicPartition, listed
from penstock.spark.core.topics import Topic

T = TypeVar("T")

_log = logging.getLogger(__name__)


def client_settings(options: SourceOptions) -> ClientSettings:
    bootstrap = tuple(Address.parse(server) for server in options.bootstrap)
    settings = ClientSettings(
        bootstrap=bootstrap,
        client_id=options.client_id,
        security=options.security,
        request_timeout_ms=options.request_timeout_ms,
        patience_ms=options.api_timeout_ms,
    )
    return settings if options.fetch_max_bytes is None else replace(settings, fetch_max_bytes=options.fetch_max_bytes)


class TopicOffsets:
    """For one thread. Raises ClientFailure: TopicMissing for a topic that was asked for by name and is not there."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._topics: tuple[Topic, ...] = ()
        self._topics_until_s = 0.0

    def at(self, position: Position, *, starting: bool) -> SourceOffset:
        """PositionError if the partitions are not those that it names, or nothing is as young as it says."""
        return self._tried(lambda: self._at(position, starting))

    def latest(self, known: SourceOffset) -> SourceOffset:
        """Where the logs end, and no less than what is `known`, unless it stays so: then something was lost."""
        for attempt in range(self._options.offset_attempts):
            latest = self.at(Everywhere(LATEST), starting=False)
            renewed = known.renewed_topics(latest)
            shorter = {
                tp: offset
                for tp, offset in latest.offsets.items()
                if tp.topic not in renewed and offset < known.offsets.get(tp, 0)
            }
            if not shorter:
                break
            _log.warning("The logs of %s end before what was read of them already", listed(shorter))
            if attempt + 1 < self._options.offset_attempts:
                self._pause()
        return latest

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Of those that are still there."""
        if not partitions:
            return {}
        return self._tried(lambda: self._earliest(frozenset(partitions)))

    def cut_off(self, start: SourceOffset, end: SourceOffset) -> dict[TopicPartition, int]:
        """Where logs were cut below `start`, by elections since then: what they have behind that are other records."""
        renewed = start.renewed_topics(end)
        elected = {
            tp: epoch
            for tp, epoch in start.leader_epochs.items()
            if end.leader_epochs.get(tp, -1) > epoch
            and end.offsets.get(tp, 0) > start.offsets.get(tp, 0)
            and tp.topic not in renewed
        }
        ends = self._cluster.epoch_ends(elected) if elected else {}
        return {tp: offset for tp, offset in ends.items() if 0 <= offset < start.offsets.get(tp, 0)}

    def first_since(self, partitions: Collection[TopicPartition], moment_ms: int) -> dict[TopicPartition, int | None]:
        """The first record of each that is not older; None if all are."""
        return self._ask(dict.fromkeys(partitions, moment_ms), {})

    def topic_ids(self) -> SourceOffset:
        """Which topics there are now, without their offsets."""
        return SourceOffset({}, {}, {topic.name: topic.topic_id for topic in self._found_topics()})

    def _at(self, position: Position, starting: bool) -> SourceOffset:
        topics = self._found_topics()
        leader_epochs: dict[TopicPartition, int] = {}
        offsets = resolve(
            position, self._partitions(topics), lambda at: self._ask(at, leader_epochs), starting=starting
        )
        ids = {topic.name: topic.topic_id for topic in topics}
        return SourceOffset(offsets, leader_epochs, ids)

    def _earliest(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        there = partitions.intersection(self._partitions(self._found_topics()))
        found = self._ask(dict.fromkeys(there, EARLIEST), {})
        return {tp: offset for tp, offset in found.items() if offset is not None}

    def _ask(
        self, at: Mapping[TopicPartition, int], leader_epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        found = self._cluster.offsets(at, read_committed=self._options.read_committed)
        for tp, answer in found.items():
            if answer is not None and answer.leader_epoch >= 0:
                leader_epochs[tp] = answer.leader_epoch
        return {tp: None if answer is None else answer.offset for tp, answer in found.items()}

    def _found_topics(self) -> tuple[Topic, ...]:
        now_s = time.monotonic()
        if now_s >= self._topics_until_s:
            self._topics = self._look_up()
            ttl_ms = self._options.metadata_ttl_ms
            self._topics_until_s = 0.0 if ttl_ms is None else now_s + ttl_ms / 1000
        return self._topics

    def _look_up(self) -> tuple[Topic, ...]:
        choice = self._options.topics
        if choice.pattern is not None:
            pattern = re.compile(choice.pattern)
            return self._cluster.topics_matching(lambda name: pattern.search(name) is not None)
        wanted = choice.topics or tuple({tp.topic for tp in choice.assigned})
        topics = self._cluster.topics(wanted)
        missing = sorted(set(wanted) - {topic.name for topic in topics})
        if missing:
            raise TopicMissing(f"There is no topic {', '.join(missing)}: create it first, or correct its name")
        lacking = choice.assigned - {tp for topic in topics for tp in topic.topic_partitions}
        if lacking:
            raise TopicMissing(f"There are no partitions {listed(lacking)}, which the option 'assign' names")
        return topics

    def _partitions(self, topics: tuple[Topic, ...]) -> list[TopicPartition]:
        assigned = self._options.topics.assigned
        return [tp for topic in topics for tp in topic.topic_partitions if not assigned or tp in assigned]

    def _tried(self, attempt: Callable[[], T]) -> T:
        """A topic may go between two questions about it: then the answer is as if it had not been there before."""
        for _ in range(self._options.offset_attempts - 1):
            try:
                return attempt()
            except TopicMissing as error:
                _log.warning("Looking up offsets again: %s", error)
                self._topics_until_s = 0.0
                self._pause()
        return attempt()

    def _pause(self) -> None:
        time.sleep(self._options.offset_retry_ms / 1000)
