"""Files of this broker's logs for audits: only those that a log says it has, one part at a time, at a limited rate."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from penstock.clock import Clock, sleep
from penstock.cluster.core.throttle import Throttle
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.storage.core.log_files import (
    CHECKPOINT_NAME,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    START_OFFSET_NAME,
    TIME_INDEX_SUFFIX,
    TOPIC_ID_NAME,
    TRANSACTION_INDEX_SUFFIX,
    segment_stem,
)
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from penstock.storage.unasked import UnaskedFile
from penstock.units import SECOND_MS
from penstock.wire.audit_messages import (
    AuditProblem,
    AuditReply,
    FileKind,
    FileName,
    ListedLog,
    ListedSegment,
    ListLogs,
    ReadFile,
)

# A page of the list: the event loop makes it in a few milliseconds.
_PAGE_LOGS = 500
_PAGE_SEGMENTS = 5_000
# Who waits for a turn; each is a connection with nothing else to do.
_MOST_WAITING = 64

_SUFFIXES = {
    FileKind.LOG: LOG_SUFFIX,
    FileKind.OFFSET_INDEX: OFFSET_INDEX_SUFFIX,
    FileKind.TIME_INDEX: TIME_INDEX_SUFFIX,
    FileKind.TRANSACTION_INDEX: TRANSACTION_INDEX_SUFFIX,
    FileKind.SNAPSHOT: SNAPSHOT_SUFFIX,
}
_NAMES = {FileKind.CHECKPOINT: CHECKPOINT_NAME, FileKind.START_OFFSET: START_OFFSET_NAME}
_CHANGED = AuditReply(AuditProblem.CHANGED, "the log was truncated, compacted, deleted or moved since it was listed")
_GONE = AuditReply(AuditProblem.GONE, "retention has taken the segment")
_BUSY = AuditReply(AuditProblem.BUSY, f"{_MOST_WAITING} reads of audits wait already")


class _Found(NamedTuple):
    log: Log
    # None: the file belongs to no segment.
    segment: Segment | None


class AuditFiles:
    """On the event loop's thread; one pool thread at a time reads for it, so that consumers keep the others."""

    def __init__(self, replicas: Replicas, pool: ThreadPoolExecutor, clock: Clock, bytes_per_second: int) -> None:
        self._replicas = replicas
        self._pool = pool
        self._clock = clock
        # As if nobody had read for a second.
        self._throttle = Throttle(bytes_per_second, clock.now_ms() - SECOND_MS)
        self._turn = asyncio.Lock()
        self._waiting = 0

    def listed(self, request: ListLogs) -> AuditReply:
        behind = sorted(
            (partition.topic, partition.index, partition)
            for partition in self._replicas
            if request.after is None or (partition.topic, partition.index) > request.after
        )
        rows: list[ListedLog] = []
        segments = 0
        for _, _, partition in behind[:_PAGE_LOGS]:
            rows.append(_listed(partition))
            segments += len(rows[-1].segments)
            if segments >= _PAGE_SEGMENTS:
                break
        return AuditReply(logs=tuple(rows), has_more=len(rows) < len(behind))

    async def read(self, request: ReadFile) -> AuditReply:
        if self._waiting >= _MOST_WAITING:
            return _BUSY
        self._waiting += 1
        try:
            async with self._turn:
                return await self._read(request)
        finally:
            self._waiting -= 1

    async def _read(self, request: ReadFile) -> AuditReply:
        granted = await self._granted(request.length)
        read = 0
        try:
            found = self._find(request)
            if isinstance(found, AuditReply):
                return found
            reading = asyncio.get_running_loop().run_in_executor(
                self._pool, _part, found, _path(found.log, request.file), request.position, granted
            )
            reply = await reading
            read = len(reply.data)
            return self._if_still_there(request, found, reply)
        finally:
            self._throttle.settle(granted, read)

    async def _granted(self, wanted: int) -> int:
        while True:
            now_ms = self._clock.now_ms()
            granted = self._throttle.grant(wanted, now_ms)
            if granted:
                return granted
            await sleep(self._clock, self._throttle.next_ms(wanted, now_ms) - now_ms)

    def _find(self, request: ReadFile) -> _Found | AuditReply:
        """The answer, where the log is not as it was listed or has no such segment."""
        partition = self._replicas.find_by_id(request.topic_id, request.partition)
        if not isinstance(partition, Partition) or not partition.settled.is_set():
            return _CHANGED
        log = partition.log
        if log.truncations != request.truncations:
            return _CHANGED
        if request.file.kind not in _SUFFIXES:
            return _Found(log, None)
        segment = _segment(log, request.file)
        return _lost(log, request.file) if segment is None else _Found(log, segment)

    def _if_still_there(self, request: ReadFile, found: _Found, reply: AuditReply) -> AuditReply:
        """Something else may be in its place by now, or nothing."""
        now = self._find(request)
        if isinstance(now, AuditReply):
            return now
        if now != found:
            return _CHANGED
        if reply.problem is not None and found.segment is not None and found.segment not in found.log.segments:
            # It was on its way out.
            return _lost(found.log, request.file)
        return reply


def _segment(log: Log, file: FileName) -> Segment | None:
    wanted = file.base_offset, file.generation
    place = bisect_left(log.segments, file.base_offset, key=lambda segment: segment.base_offset)
    here = log.segments[place : place + 1]
    # What retention or compaction has taken out stays on disk for a while, and says what it said when it was listed.
    for segment in (*here, *(segment for _, segment in (*log.replaced, *log.doomed))):
        if (segment.base_offset, segment.generation) == wanted and not segment.is_removed:
            return segment
    return None


def _lost(log: Log, file: FileName) -> AuditReply:
    """Compaction never moves where the first segment begins."""
    first_offset = log.segments[0].base_offset if log.segments else log.start_offset
    return _GONE if file.base_offset < first_offset else _CHANGED


def _listed(partition: Partition) -> ListedLog:
    log = partition.log
    lost = log.recovery.lost
    had_gaps = log.commit.says_gaps or log.clean_offset > 0 or any(segment.gaps for segment in log.segments)
    return ListedLog(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.index,
        high_watermark=partition.high_watermark,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        truncations=log.truncations,
        may_have_gaps="compact" in log.settings.cleanup_policy or had_gaps,
        segments=tuple(
            ListedSegment(segment.base_offset, segment.generation, segment.size, segment.next_offset)
            for segment in log.segments
        ),
        failure=log.failure,
        # One that has begun anew since, at what its leader has, has not lost them any more.
        lost=lost if lost is not None and lost[1] == log.start_offset else None,
    )


def _path(log: Log, file: FileName) -> str:
    if file.kind is FileKind.TOPIC_ID:
        # Of the topic, beside its partitions.
        return f"{log.directory.rpartition('/')[0]}/{TOPIC_ID_NAME}"
    if file.kind in _SUFFIXES:
        return f"{log.directory}/{segment_stem(file.base_offset, file.generation)}{_SUFFIXES[file.kind]}"
    return f"{log.directory}/{_NAMES[file.kind]}"


def _part(found: _Found, path: str, position: int, length: int) -> AuditReply:
    """Blocking. The file is opened anew: one that is deleted but still open here would be read as if it were there."""
    try:
        file = found.log.disk.open(path)
        try:
            to_read = file if found.segment is None else UnaskedFile(file, found.segment.known)
            return AuditReply(data=to_read.read(position, length), file_size=file.size())
        finally:
            file.close()
    except FileNotFoundError:
        return AuditReply(AuditProblem.MISSING, f"there is no {path}")
    except OSError as error:
        return AuditReply(AuditProblem.UNREADABLE, f"{path} cannot be read: {error}")
