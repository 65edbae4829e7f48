"""Fetch: reads up to the high watermark, and waits for `min_bytes` as long as the client allows.

With `read_committed` up to the last stable offset, and with the aborted transactions that overlap with the records: the
client leaves those out. There is one for every abort marker, also if nothing is left of its transaction.

A follower reads to the end of the log. What it asks for acknowledges what it has, which each leader is told before its
log is read, and what that brings about in other logs goes along at once. Otherwise it waits for what is appended. It
hears of the high watermark when it gets an answer.

A fetch that finds too little parks one waiter on its partitions; what wakes it leads to one more read, whose result is
the answer. What is in the page cache is read at once, the rest by a pool thread.

While clients leave many replies unread, answers are smaller than asked for, down to one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.broker.api import Api, Buffers, Caller
from penstock.broker.current_leaders import CurrentLeaders
from penstock.broker.error_codes import NONE, code_of
from penstock.broker.fetch_limits import FollowerLimits
from penstock.broker.fetch_read import FetchRead, Reader, Row, read_again, read_all
from penstock.broker.fetch_readers import ConsumerReader, FollowerReader
from penstock.broker.fetch_sessions import FetchSessions, Plan, Wanted
from penstock.broker.fetch_usage import FetchUsage
from penstock.broker.fetch_wait import FetchWait
from penstock.broker.reply_memory import ReplyMemory
from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.disk.interface import Buffer
from penstock.errors import PenstockError, Refused
from penstock.later import Later, awaiting
from penstock.replication.move_throttles import MoveThrottles
from penstock.replication.replicas import Replicas
from penstock.storage.log import Slice
from penstock.units import MIB
from penstock.wire.fetch import CONSUMER, READ_COMMITTED, FetchRequest, read_fetch_request
from penstock.wire.fetch_response import pack_fetch_response
from penstock.wire.fetched import EpochEndOffset, FetchResponse, PartitionFetched, TopicFetched
from penstock.wire.leaders import LeaderIdAndEpoch
from penstock.wire.tuples import new_tuple

# Kafka's fetch.max.bytes: the most that one answer holds, whatever the client asks for.
MAX_BYTES: Final = 55 * MIB
# What an answer holds unless the client insists on more with min_bytes. Larger ones are slower: the client has nothing
# to do while one is made, the broker nothing while it is taken in, and others wait longer for the event loop. What
# stays in its file counts for less, so an answer may become four times as large.
ENOUGH_BYTES: Final = MIB


class Fetch:
    api: ClassVar = Api(key=1, versions=(4, 18), counts_topics=True)

    def __init__(
        self,
        replicas: Replicas,
        image: Image,
        sessions: FetchSessions,
        reply_memory: ReplyMemory,
        throttles: MoveThrottles,
        usage: FetchUsage,
        pool: ThreadPoolExecutor,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._leaders = CurrentLeaders(image)
        self._sessions = sessions
        self._reply_memory = reply_memory
        self._throttles = throttles
        self._usage = usage
        self._pool = pool
        self._clock = clock

    def read(self, frame: memoryview, body_start: int, version: int) -> FetchRequest:
        return read_fetch_request(frame, body_start, version)

    def pack(self, response: FetchResponse, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        return pack_fetch_response(response, version, correlation_id, throttle_ms)

    def start(self, request: FetchRequest, caller: Caller) -> FetchResponse | Later[FetchResponse]:
        if request.replica_id < CONSUMER:
            return FetchResponse([], ErrorCode.invalid_request)
        plan = self._sessions.plan(request, _wanted(request), _forgotten(request), self._clock.now_ms())
        if isinstance(plan, Refused):
            return FetchResponse([], code_of(plan))
        follower = None
        if request.replica_id != CONSUMER:
            number, now_ms = caller.number, self._clock.now_ms()
            limits = None
            if self._throttles.has_own(now_ms):
                limits = FollowerLimits(self._throttles, request.replica_id, self._clock)
            follower = FollowerReader(request.replica_id, request.replica_epoch, number, limits, now_ms)
        reads_committed = request.isolation_level == READ_COMMITTED
        reader = follower or ConsumerReader(self._image, request.rack_id, reads_committed=reads_committed)
        read = self._read(request, plan, reader, caller)
        is_urgent, tenant = False, None
        if follower is not None:
            follower.told()
            if not (read.size or read.failed or follower.is_urgent) and follower.has_more_by_now(read.rows):
                read = read_again(self._replicas, read, self._new_read(request, follower, caller), follower)
            is_urgent = follower.is_urgent
        else:
            tenant = caller.tenant
            self._usage.asked(tenant, read.rows)
        # Without partitions there is nothing to wait for: it closes a session, say.
        if read.failed or not read.rows or read.size >= request.min_bytes or request.max_wait_ms <= 0 or is_urgent:
            return self._answer(request, plan, read, tenant)
        return self._park(request, plan, read, caller, reader, tenant)

    def _read(self, request: FetchRequest, plan: Plan, reader: Reader, caller: Caller) -> FetchRead:
        read = self._new_read(request, reader, caller)
        if plan.session is not None or reader.is_follower or len(plan.wanted) == 1:
            return read_all(self._replicas, plan.wanted, read, reader)
        read_all(self._replicas, _in_turn(plan.wanted, caller.served_last), read, reader)
        caller.served_last = _last_served(read) if read.size else None
        return read

    def _new_read(self, request: FetchRequest, reader: Reader, caller: Caller) -> FetchRead:
        # Twice: an answer is made of whole batches, and must not fall short for the last one.
        enough_bytes = min(MAX_BYTES, max(ENOUGH_BYTES, 2 * request.min_bytes))
        max_bytes = min(request.max_bytes, MAX_BYTES, self._reply_memory.allowance())
        return FetchRead(
            max_bytes,
            min(max_bytes, enough_bytes),
            request.min_bytes,
            to_end=reader.is_follower,
            reads_committed=reader.reads_committed,
            # Not to followers: what is not committed yet may be cut off and written anew while it is on its way.
            takes_files=caller.takes_files and not reader.is_follower,
        )

    def _park(
        self, request: FetchRequest, plan: Plan, read: FetchRead, caller: Caller, reader: Reader, tenant: str | None
    ) -> Later[FetchResponse]:
        answer: Later[FetchResponse] = Later()
        for row in read.rows:
            # It is read again; until then nothing keeps memory or files.
            row.records = []

        def finish() -> None:
            caller.when_gone = caller.when_more = None
            if reader.is_follower and not read.size:
                found = read_again(self._replicas, read, self._new_read(request, reader, caller), reader)
            else:
                found = self._read(request, plan, reader, caller)
            response = self._answer(request, plan, found, tenant)
            if isinstance(response, Later):
                response.when_done(lambda done: answer.settle_like(done))
            else:
                answer.complete(response)

        wait = FetchWait(
            [row.partition for row in read.rows if row.partition is not None and not row.is_held],
            missing_bytes=request.min_bytes - read.size,
            finish=finish,
            appends=reader.is_follower,
            stable=reader.reads_committed,
        )

        limits = reader.limits
        wait.arm(self._clock, request.max_wait_ms if limits is None else limits.wait_ms(request.max_wait_ms))
        # No request of this connection starts before this one is answered, so nobody else's callback is replaced.
        caller.when_gone = partial(_give_up, caller, wait, answer)
        if reader.is_follower:
            # A broker sends one fetch at a time: when more comes, it has something new to fetch.
            caller.when_more = wait.hurry
        return answer

    def _answer(
        self, request: FetchRequest, plan: Plan, read: FetchRead, tenant: str | None
    ) -> FetchResponse | Later[FetchResponse]:
        """`tenant`: whose usage it is; None for a follower."""
        if not read.cold:
            return self._response(request, plan, read.rows, tenant)
        # Counted from now on, for many can be on their way at once.
        held_bytes = read.size
        self._reply_memory.hold(held_bytes)
        answer = awaiting(self._load_and_answer(request, plan, read, tenant))
        answer.when_done(lambda _: self._reply_memory.release(held_bytes))
        return answer

    async def _load_and_answer(
        self, request: FetchRequest, plan: Plan, read: FetchRead, tenant: str | None
    ) -> FetchResponse:
        """Blocking reads, in the pool; what cannot be read becomes its row's error."""
        loop = asyncio.get_running_loop()
        while read.cold:
            cold, read.cold = read.cold, []
            results = await loop.run_in_executor(self._pool, _load, [row.slice for row in cold])
            for row, result in zip(cold, results, strict=True):
                try:
                    if isinstance(result, PenstockError):
                        raise result
                    read.loaded(row, result)
                except PenstockError as error:
                    row.fail(error)
            if not read.cold:
                read.read_what_is_gone()
        return self._response(request, plan, read.rows, tenant)

    def _response(self, request: FetchRequest, plan: Plan, rows: list[Row], tenant: str | None) -> FetchResponse:
        if tenant is not None:
            self._usage.served(tenant, rows)
        # Each once, however its partitions were read in turn: some clients keep only the last of two.
        topics: dict[tuple[str, UUID | None], TopicFetched] = {}
        topic: TopicFetched | None = None
        leaders: list[LeaderIdAndEpoch] = []
        for row in rows:
            wanted = row.wanted
            if plan.incremental and not row.has_news:
                continue
            if row.records and plan.session is not None:
                plan.session.served(wanted)
            wanted.told_high_watermark, wanted.told_start_offset = row.high_watermark, row.start_offset
            # The same id is the same object, mostly, and to compare two takes a call. If it is not, `topics` has it.
            if topic is None or topic.name != wanted.topic or topic.topic_id is not wanted.topic_id:
                topic = TopicFetched(wanted.topic, wanted.topic_id, [])
                topic = topics.setdefault((wanted.topic, wanted.topic_id), topic)
            partitions = topic.partitions
            assert isinstance(partitions, list)
            if row.refused is None:
                partitions.append(_partition(request, row))
            else:
                partitions.append(failed := self._failed(row, row.refused))
                leaders += [] if failed.current_leader is None else [failed.current_leader]
        session_id = 0 if plan.session is None else plan.session.id
        endpoints = self._leaders.endpoints(leaders) if leaders else ()
        return FetchResponse(list(topics.values()), NONE, session_id, endpoints)

    def _failed(self, row: Row, refused: Refused) -> PartitionFetched:
        wanted, code = row.wanted, code_of(refused)
        leader = self._leaders.beside(code, wanted.topic, wanted.topic_id, wanted.index)
        return PartitionFetched(wanted.index, code, row.high_watermark, -1, row.start_offset, current_leader=leader)


def _give_up(caller: Caller, wait: FetchWait, answer: Later[FetchResponse]) -> None:
    # No closure beside that of the answer: compiled ones share all that they hold, and that would be a circle.
    caller.when_gone = caller.when_more = None
    wait.cancel()
    answer.complete(FetchResponse([]))


def _in_turn(wanted: list[Wanted], served_last: tuple[str | UUID, int] | None) -> list[Wanted]:
    """Behind the last that got something before: without a session it is on no one else to see that none starves."""
    if served_last is not None:
        for place, each in enumerate(wanted, 1):
            if each.key == served_last:
                return wanted[place:] + wanted[:place]
    return wanted


def _last_served(read: FetchRead) -> tuple[str | UUID, int] | None:
    served = (row.wanted.key for row in reversed(read.rows) if row.records or row.slice is not None)
    return next(served, None)


def _load(slices: list[Slice | None]) -> list[Buffer | PenstockError]:
    results: list[Buffer | PenstockError] = []
    for part in slices:
        try:
            results.append(part.load() if part is not None else b"")
        except PenstockError as error:
            results.append(error)
    return results


def _partition(request: FetchRequest, row: Row) -> PartitionFetched:
    fields = (
        row.wanted.index,
        NONE,
        row.high_watermark,
        row.last_stable_offset,
        row.start_offset,
        row.aborted_transactions() if request.isolation_level == READ_COMMITTED else None,
        row.preferred_replica,
        row.records,
        None if row.parting is None else EpochEndOffset(*row.parting),
        None,
        None,
    )
    return new_tuple(PartitionFetched, fields)


def _wanted(request: FetchRequest) -> Iterable[Wanted]:
    for topic in request.topics:
        for row in topic.partitions:
            yield Wanted(
                topic.name,
                topic.topic_id,
                row.partition,
                row.fetch_offset,
                row.partition_max_bytes,
                row.current_leader_epoch,
                row.last_fetched_epoch,
                row.log_start_offset,
            )


def _forgotten(request: FetchRequest) -> Iterable[tuple[str | UUID, int]]:
    for topic in request.forgotten_topics:
        for index in topic.partitions:
            yield (topic.topic_id or topic.name, index)
