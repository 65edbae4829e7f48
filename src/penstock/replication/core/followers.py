"""The followers of one partition, and how its leader judges them: who lags behind, who is worth waiting for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.replication.core.follower import UNKNOWN_OFFSET, Follower
from penstock.replication.core.replica_log import ReplicaLog


class LeadershipSettings(NamedTuple):
    replica_lag_time_max_ms: int = 30_000
    # None: a follower's lag is judged by time alone.
    replica_lag_max_messages: int | None = None


class Followers:
    """`table`: by replica id. `live`: see Leadership."""

    def __init__(self, settings: LeadershipSettings, log: ReplicaLog, live: Mapping[int, int]) -> None:
        self.settings = settings
        self.table: dict[int, Follower] = {}
        self._log = log
        self._live = live

    def become(self, replicas: Collection[int], isr: Collection[int], now_ms: int) -> None:
        """Those who stay keep what is known of them."""
        for replica in self.table.keys() - set(replicas):
            del self.table[replica]
        for replica in replicas:
            if replica not in self.table:
                self.table[replica] = Follower(replica, in_sync=replica in isr, now_ms=now_ms)

    def is_eligible(self, follower: Follower, now_ms: int) -> bool:
        """For the ISR: it is alive and fetches in the life that the controller has admitted (KIP-903)."""
        epoch = self._live.get(follower.replica)
        return epoch is not None and epoch == follower.broker_epoch and now_ms >= follower.declined_until_ms

    def is_awaited(self, follower: Follower, now_ms: int) -> bool:
        """Under steady load the high watermark would run away from who is about to join, were it not waited for."""
        lag_ms = self.settings.replica_lag_time_max_ms
        return self.is_eligible(follower, now_ms) and follower.is_caught_up(self._log.end_offset, now_ms, lag_ms)

    def lags_by_messages(self, follower: Follower) -> bool:
        most = self.settings.replica_lag_max_messages
        end = follower.acknowledged_end
        return most is not None and end != UNKNOWN_OFFSET and self._log.end_offset - end > most

    def has_lost(self, follower: Follower, high_watermark: int) -> bool:
        """Of a member, or an eligible one: all of them had what is committed, so its disk has not kept it."""
        return UNKNOWN_OFFSET < follower.acknowledged_end < high_watermark

    def lags(self, follower: Follower, now_ms: int) -> bool:
        lag_ms = self.settings.replica_lag_time_max_ms
        return self.lags_by_messages(follower) or not follower.is_caught_up(self._log.end_offset, now_ms, lag_ms)
