"""Which limits hold for what is copied to a replica that is not in sync yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from penstock.cluster.core.image import Image
from penstock.cluster.core.throttle import Throttle
from penstock.config.replication import UNLIMITED_RATE, ReplicationSettings
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.replication.partition import Partition

_NOTHING: Mapping[str, str] = {}


class Side(Enum):
    """Of a move: who gives, and who gets."""

    LEADER = auto()
    FOLLOWER = auto()


class MoveThrottles:
    """The broker's own limit, for all that it gives or gets by moves, and for what topics name; and, where it gets, the

    limit of a move, for all that comes here by moves with the same rate. What is in sync is never held up, nor what
    falls behind later and is not named.
    """

    def __init__(
        self, image: Image, settings: ReplicationSettings, topic_settings: TopicReplicationSettings, side: Side
    ) -> None:
        self._image = image
        self._settings = settings
        self._topic_settings = topic_settings
        self._side = side
        # As it was when its limit was last looked up.
        self._config: Mapping[str, str] | None = None
        self._own: Throttle | None = None
        self._by_rate: dict[int, Throttle] = {}

    def of(self, partition: Partition, replica: int, now_ms: int) -> tuple[Throttle, ...]:
        """For what `replica` fetches: this broker, or one that fetches from it."""
        own, state = self._own_throttle(now_ms), partition.state
        if own is None and not state.throttled_rate:
            return ()
        # One that is in sync is waited for by acks=all, also while others of the same move are not.
        is_moved = replica in state.adding and replica not in state.isr
        if own is not None and not is_moved and (replica in state.isr or not self._is_named(partition, replica)):
            own = None
        throttles = () if own is None else (own,)
        if is_moved and state.throttled_rate and self._side is Side.FOLLOWER:
            return (*throttles, self._of_rate(state.throttled_rate, now_ms))
        return throttles

    def has_own(self, now_ms: int) -> bool:
        """Whether the broker itself is limited; most are not, and need not look at each partition."""
        return self._own_throttle(now_ms) is not None

    def _own_throttle(self, now_ms: int) -> Throttle | None:
        broker = self._image.brokers.get(self._image.node_id)
        config = _NOTHING if broker is None else broker.config
        if config is not self._config:
            self._config = config
            self._limit_to(self._rate_of(self._settings.overridden_by(config)), now_ms)
        return self._own

    def _rate_of(self, settings: ReplicationSettings) -> int:
        if self._side is Side.LEADER:
            return settings.leader_replication_throttled_rate
        return settings.follower_replication_throttled_rate

    def _limit_to(self, rate: int, now_ms: int) -> None:
        if rate == UNLIMITED_RATE:
            self._own = None
        elif self._own is None:
            self._own = Throttle(rate, now_ms)
        else:
            self._own.change_rate(rate, now_ms)

    def _of_rate(self, rate: int, now_ms: int) -> Throttle:
        if rate not in self._by_rate:
            self._by_rate[rate] = Throttle(rate, now_ms)
        return self._by_rate[rate]

    def _is_named(self, partition: Partition, replica: int) -> bool:
        topic = self._image.topic(partition.topic)
        settings = self._topic_settings.overridden_by(_NOTHING if topic is None else topic.config)
        named = (
            settings.leader_replication_throttled_replicas
            if self._side is Side.LEADER
            else settings.follower_replication_throttled_replicas
        )
        return named.has(partition.index, replica)
