"""Which leader each partition that follows is fetched from."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.config.replication import ReplicationSettings
from penstock.replication.fetcher import Fetcher
from penstock.replication.flusher import Flusher
from penstock.replication.follower_logs import FollowerLogs
from penstock.replication.move_throttles import MoveThrottles
from penstock.replication.partition import Partition
from penstock.replication.settling import Settling
from penstock.replication.silence import Silence
from penstock.rpc.peers import Peers


class Fetchers:
    """A partition is with one fetcher at most, so that what an earlier leader still answers goes nowhere."""

    def __init__(
        self,
        image: Image,
        peers: Peers,
        flusher: Flusher,
        pools: tuple[ThreadPoolExecutor, ThreadPoolExecutor],
        throttles: MoveThrottles,
        settings: ReplicationSettings,
        clock: Clock,
    ) -> None:
        """`pools`: for reading, and the one with the single thread for upkeep."""
        self._image = image
        self._peers = peers
        self._settings = settings
        self._clock = clock
        reads, upkeep = pools
        self._logs = FollowerLogs(flusher, Settling(flusher, upkeep), reads, clock, self._settled)
        self._take_role: Callable[[Partition], None] = lambda _: None
        self._by_leader: dict[int, Fetcher] = {}
        self._of: dict[Partition, Fetcher] = {}
        # Of all leaders together.
        self._throttles = throttles

    def attach(self, take_role: Callable[[Partition], None]) -> None:
        """Called when a partition is settled: its role may have changed meanwhile."""
        self._take_role = take_role

    def follow(self, partition: Partition, leader: int) -> None:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            silence = Silence(leader, self._image, self._clock)
            fetcher = Fetcher(leader, self._peers, self._logs, self._throttles, self._settings, self._clock, silence)
            self._by_leader[leader] = fetcher
        if self._of.get(partition) is not fetcher:
            self.leave(partition)
            self._of[partition] = fetcher
        fetcher.introduce(self._image.node_id, self._image.agreed_epoch)
        fetcher.add(partition)

    def cut(self, partition: Partition, offset: int) -> None:
        self._logs.cut(partition, offset)

    def keep_holes(self, partition: Partition) -> None:
        self._logs.keep_holes(partition)

    def leave(self, partition: Partition) -> None:
        fetcher = self._of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)
            if not len(fetcher):
                # What it asked last goes nowhere.
                fetcher.close()
                self._by_leader = {leader: each for leader, each in self._by_leader.items() if each is not fetcher}

    def go_on(self, partition: Partition) -> None:
        if (fetcher := self._of.get(partition)) is not None:
            fetcher.go_on(partition)

    def brokers_changed(self) -> None:
        """This broker may have another epoch, or none: then nothing is fetched, because that acknowledges."""
        broker_epoch = self._image.agreed_epoch
        for fetcher in self._by_leader.values():
            fetcher.introduce(self._image.node_id, broker_epoch)

    def _settled(self, partition: Partition) -> None:
        self._take_role(partition)
        self.go_on(partition)
