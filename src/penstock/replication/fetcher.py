"""What this broker fetches from one leader: one request on its way at a time, for all partitions that may fetch now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse

from penstock.clock import Clock
from penstock.cluster.core.throttle import Throttle, grant_by_all, next_of_all_ms
from penstock.config.replication import ReplicationSettings
from penstock.later import Later
from penstock.replication.core.following import RETRY_MS, Fetch, Following
from penstock.replication.follower_logs import FollowerLogs
from penstock.replication.move_throttles import MoveThrottles
from penstock.replication.partition import Partition
from penstock.replication.silence import Silence
from penstock.rpc.alarm import Alarm
from penstock.rpc.core.call import call_of, fetch_call
from penstock.rpc.core.fetch_session import FetchSession
from penstock.rpc.core.unanswered import Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.telemetry.outage import Outage
from penstock.units import SECOND_MS
from penstock.wire.fetch import FetchRequest, PartitionFetch
from penstock.wire.fetch_answer import FetchAnswer

logger = logging.getLogger(__name__)

# For what was just received to become durable, before the next request leaves without it. A request that has left is
# held by the leader, and what is not in it cannot be acknowledged meanwhile.
HOLD_MS = 20
# Longer than a leader takes for anything but a hang.
ANSWER_WITHIN_MS = 10 * SECOND_MS

Key = tuple[UUID, int]


class Asked(NamedTuple):
    partition: Partition
    following: Following
    fetch: Fetch
    # By the throttles that apply; 0 if none does.
    granted_bytes: int
    throttles: Sequence[Throttle]


class Self(NamedTuple):
    """This broker, as a leader knows it (KIP-903)."""

    node_id: int
    broker_epoch: int


class Fetcher:
    """A partition that is slow or fails is left out of the next request; the others go on."""

    def __init__(
        self,
        leader: int,
        peers: Peers,
        logs: FollowerLogs,
        throttles: MoveThrottles,
        settings: ReplicationSettings,
        clock: Clock,
        silence: Silence,
    ) -> None:
        self.leader = leader
        self._throttles = throttles
        self._peers = peers
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._self = Self(-1, -1)
        self._session = FetchSession()
        self._partitions: dict[Key, Partition] = {}
        # They wait for a sync of what came last.
        self._unsynced: set[Key] = set()
        self._resting: dict[Key, int] = {}
        self._asked: dict[Key, Asked] | None = None
        # The leader may hold what was asked for a long time.
        self._is_long = False
        self._armed = False
        self._held_until_ms: int | None = None
        self._alarm = Alarm(clock, self._time_passed)
        self._outage = Outage()
        self._silence = silence

    def __len__(self) -> int:
        return len(self._partitions)

    def introduce(self, node_id: int, broker_epoch: int) -> None:
        """As whom it asks from now on."""
        self._self = Self(node_id, broker_epoch)
        self._arm()

    def add(self, partition: Partition) -> None:
        self._partitions[_key(partition)] = partition
        self.go_on(partition)

    def remove(self, partition: Partition) -> None:
        key = _key(partition)
        if self._partitions.pop(key, None) is not None:
            self._session.drop(*key)
            self._unsynced.discard(key)
            self._resting.pop(key, None)

    def go_on(self, partition: Partition) -> None:
        """What held it up may be over."""
        key = _key(partition)
        if partition.acknowledged_end == partition.log.end_offset:
            self._unsynced.discard(key)
        if self._asked is None:
            self._arm()
        elif self._is_long and partition.settled.is_set() and not self._is_asked(key, partition):
            self._nudge()

    def _nudge(self) -> None:
        """Something that is not in the request would wait as long as the others do: the leader ends that when it sees

        that more has come.
        """
        self._is_long = False
        nudge = call_of(ApiVersionsRequest(), ApiVersionsResponse)
        self._peers.call(self.leader, Purpose.REPLICATION, nudge, ANSWER_WITHIN_MS)

    def _is_asked(self, key: Key, partition: Partition) -> bool:
        asked = None if self._asked is None else self._asked.get(key)
        return asked is not None and asked.following is partition.following

    def close(self) -> None:
        self._partitions.clear()
        self._alarm.cancel()

    def _time_passed(self, _: int) -> None:
        if self._asked is None:
            self._pump()
        elif self._is_long:
            self._nudge()

    def _arm(self) -> None:
        """At the end of this turn: what other partitions bring in it shares the request."""
        if not self._armed and self._asked is None:
            self._armed = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._armed = False
        if self._asked is not None or not self._partitions or self._self.broker_epoch < 0:
            return
        now_ms = self._clock.now_ms()
        if self._unsynced and self._holds(now_ms):
            return
        self._held_until_ms = None
        asked, waits = self._plan(now_ms)
        if asked:
            self._ask(asked, HOLD_MS if waits else self._settings.replica_fetch_wait_max_ms)

    def _holds(self, now_ms: int) -> bool:
        if self._held_until_ms is None:
            self._held_until_ms = now_ms + HOLD_MS
        if now_ms >= self._held_until_ms:
            return False
        # Each time: it may have rung now for something that was over.
        self._alarm.arm(self._held_until_ms)
        return True

    def _plan(self, now_ms: int) -> tuple[dict[Key, Asked], bool]:
        """What to ask for now, and whether something else waits for a moment only."""
        asked: dict[Key, Asked] = {}
        waits = False
        for key, partition in list(self._partitions.items()):
            if partition.log.failure is not None:
                # It would be waited for in vain.
                self.remove(partition)
                continue
            following = partition.following
            if following is None or not partition.settled.is_set():
                self._session.drop(*key)
                continue
            max_bytes, granted, throttles = self._room_for(key, partition, now_ms)
            fetch = following.next_fetch(now_ms) if max_bytes else None
            if fetch is None:
                _settle_grant(throttles, granted, 0)
                self._session.drop(*key)
                if partition.acknowledged_end < partition.log.end_offset:
                    waits = True
                elif not following.is_fenced:
                    self._alarm.arm(now_ms + RETRY_MS)
                continue
            row = PartitionFetch(
                partition.index, fetch.leader_epoch, fetch.offset, fetch.last_fetched_epoch, fetch.log_start, max_bytes
            )
            self._session.want(partition.topic_id, row)
            asked[key] = Asked(partition, following, fetch, granted, throttles)
        return asked, waits

    def _room_for(self, key: Key, partition: Partition, now_ms: int) -> tuple[int, int, Sequence[Throttle]]:
        """How much may be asked for, 0 if it has to wait; and how much of that was granted by which throttles."""
        max_bytes = self._settings.replica_fetch_max_bytes
        if self._resting.get(key, 0) > now_ms:
            return 0, 0, ()
        throttles = self._throttles.of(partition, partition.node_id, now_ms)
        if not throttles:
            return max_bytes, 0, ()
        granted = grant_by_all(throttles, max_bytes, now_ms)
        if not granted:
            self._alarm.arm(next_of_all_ms(throttles, max_bytes, now_ms))
        return granted, granted, throttles

    def _ask(self, asked: dict[Key, Asked], max_wait_ms: int) -> None:
        self._asked, self._is_long = asked, max_wait_ms > HOLD_MS
        self._silence.asked(max_wait_ms)
        session_id, session_epoch, topics, forgotten = self._session.ask()
        request = FetchRequest(
            *self._self,
            max_wait_ms,
            1,
            self._settings.replica_fetch_response_max_bytes,
            0,
            session_id,
            session_epoch,
            topics,
            forgotten,
            "",
            None,
        )
        timeout_ms = max_wait_ms + ANSWER_WITHIN_MS
        self._peers.call(self.leader, Purpose.REPLICATION, fetch_call(request), timeout_ms).when_done(self._answered)

    def _answered(self, done: Later[FetchAnswer | Unanswered]) -> None:
        asked, self._asked = self._asked, None
        assert asked is not None
        answer, now_ms = done.result(), self._clock.now_ms()
        if isinstance(answer, Unanswered):
            self._silence.over()
            self._session.unanswered()
            self._failed(asked, answer.text, now_ms)
        elif (why := self._session.answered(answer)) is not None:
            self._silence.answered()
            self._failed(asked, why, now_ms)
        else:
            self._silence.answered()
            if self._outage.lasts:
                logger.info("fetch.works.again", extra={"leader": self.leader, "times": self._outage.over()})
            self._take(answer, asked, now_ms)
        self._arm()

    def _failed(self, asked: dict[Key, Asked], why: str, now_ms: int) -> None:
        if (times := self._outage.failed(why, now_ms)) is not None:
            logger.warning("fetch.failed", extra={"leader": self.leader, "why": why, "times": times})
        for each in asked.values():
            each.following.on_refused(each.fetch, None, now_ms)
            _settle_grant(each.throttles, each.granted_bytes, 0)
            self._alarm.arm(each.following.retry_at_ms)

    def _take(self, answer: FetchAnswer, asked: dict[Key, Asked], now_ms: int) -> None:
        silent = dict(asked)
        for topic in answer.topics:
            for row in topic.partitions:
                assert topic.topic_id is not None
                key = (topic.topic_id, row.partition)
                each = silent.pop(key, None)
                if each is None:
                    continue
                partition, following, fetch, granted, throttles = each
                _settle_grant(throttles, granted, len(row.records))
                if not self._logs.answered(partition, following, fetch, row):
                    again_ms = following.retry_at_ms if following.retry_at_ms > now_ms else now_ms + RETRY_MS
                    self._resting[key] = again_ms
                    self._alarm.arm(again_ms)
                elif partition.acknowledged_end < partition.log.end_offset and key in self._partitions:
                    self._unsynced.add(key)
        for each in silent.values():
            _settle_grant(each.throttles, each.granted_bytes, 0)
            self._logs.silent(each.partition, each.following, each.fetch)


def _settle_grant(throttles: Sequence[Throttle], granted_bytes: int, fetched_bytes: int) -> None:
    if granted_bytes:
        for throttle in throttles:
            throttle.settle(granted_bytes, fetched_bytes)


def _key(partition: Partition) -> Key:
    return (partition.topic_id, partition.index)
