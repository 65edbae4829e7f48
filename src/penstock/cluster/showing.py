"""The image, and whoever follows the topics, brought in step with what is known."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from msgspec.structs import replace

from penstock.cluster.core.delta import BrokerRow
from penstock.cluster.core.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.cluster.core.known_topics import KnownTopic, KnownTopics
from penstock.coordination.paths import NO_EPOCH, NO_LEADER
from penstock.errors import PenstockError

logger = logging.getLogger(__name__)


class Follower(Protocol):
    """Keeps something in step with the topics."""

    def open_topic(self, topic: TopicImage) -> Awaitable[None]:
        """A new one, or one of which something has changed: always the whole topic as it is now."""

    def drop_topic(self, name: str, *, keep: bool = False) -> Awaitable[None]:
        """`keep`: what is deleted can be had back for a while."""


# Topics that could not be opened here, with why.
Failures = Mapping[str, PenstockError]


class Showing:
    """Followers first, in their order, then the image: so what the image shows can be used."""

    def __init__(self, image: Image, topics: KnownTopics) -> None:
        self._image = image
        self._topics = topics
        self._brokers: Mapping[int, BrokerRow] = {}
        self._followers: list[Follower] = []
        self._when_brokers_change: list[Callable[[], None]] = []
        self._shown_as_leader = False
        # By topic, why it could not be opened.
        self.failures: dict[str, str] = {}

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    def when_brokers_change(self, callback: Callable[[], None]) -> None:
        self._when_brokers_change.append(callback)

    def broker_row(self, node_id: int) -> BrokerRow | None:
        return self._brokers.get(node_id)

    def take_controller(self, controller: int) -> None:
        if controller != self._image.controller_id:
            self._image.controller_id = controller
            self._tell_brokers_changed()

    def take_brokers(self, rows: Iterable[BrokerRow]) -> None:
        brokers = {row.node_id: row for row in rows}
        if brokers == self._brokers:
            return
        self._brokers = brokers
        self._image.put_brokers(
            BrokerImage(
                row.node_id,
                row.host,
                row.port,
                row.rack,
                row.machine,
                row.broker_epoch,
                row.is_live,
                row.stopping,
                row.config,
            )
            for row in brokers.values()
        )
        self._tell_brokers_changed()

    def set_own_epoch(self, broker_epoch: int) -> None:
        """Of the registration that counts now. NO_EPOCH: there is none, and this broker leads nothing."""
        self._image.own_epoch = broker_epoch
        self._tell_brokers_changed()

    def _tell_brokers_changed(self) -> None:
        for callback in self._when_brokers_change:
            callback()

    async def drop(self, name: str, *, keep: bool = False) -> None:
        self._image.remove(name)
        self.failures.pop(name, None)
        for follower in self._followers:
            await follower.drop_topic(name, keep=keep)

    async def show(self, names: Iterable[str]) -> Failures:
        if self._may_lead != self._shown_as_leader:
            # All that this broker leads by record, now that it may, or may not any more.
            self._shown_as_leader = self._may_lead
            names = [topic.row.name for topic in self._topics]
        failures: dict[str, PenstockError] = {}
        # A change of leaders is urgent; the files of a new topic take their time.
        for name in sorted(names, key=lambda name: self._image.topic(name) is None):
            known, before = self._topics.get(name), self._image.topic(name)
            if known is None or not known.is_complete:
                continue
            image = self._image_of(known)
            if image == before and name not in self.failures:
                continue
            if before is not None and before.id != image.id:
                await self.drop(name)
            try:
                for follower in self._followers:
                    await follower.open_topic(image)
            except PenstockError as error:
                failures[name], self.failures[name] = error, str(error)
                logger.error("topic.not.opened", extra={"topic": name, "why": str(error)})
                if before is not None and before.id == image.id:
                    # Who leads what of the rest is no secret.
                    self._image.put(image)
                continue
            self.failures.pop(name, None)
            self._image.put(image)
        return failures

    @property
    def _may_lead(self) -> bool:
        own_epoch = self._image.own_epoch
        return own_epoch != NO_EPOCH and self._image.live_epochs.get(self._image.node_id) == own_epoch

    def _image_of(self, known: KnownTopic) -> TopicImage:
        row, partitions = known.row, tuple(map(self._masked, known.partitions))
        return TopicImage(row.name, row.topic_id, partitions, row.config)

    def _masked(self, partition: PartitionImage) -> PartitionImage:
        """What the store says of this broker counts from its admission on: before, it speaks of an earlier life."""
        if partition.state.leader != self._image.node_id or self._may_lead:
            return partition
        return PartitionImage(replace(partition.state, leader=NO_LEADER), partition.version)
