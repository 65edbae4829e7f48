"""Fetch for one range: asks the leader, whoever it is, and asks ahead while the last answer is used."""

from __future__ import annotations

import struct
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v13.response import FetchResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32, i32Timedelta, i64

from penstock.rpc.core.call import LARGEST_BATCH_BYTES, MAX_ANSWER_BYTES, Call
from penstock.spark.cluster import Cluster
from penstock.spark.connection import Connection
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import Again, ClientFailure, NoAnswer, TopicRecreated
from penstock.spark.core.offset_range import OffsetRange
from penstock.spark.core.topics import Leader
from penstock.wire.fetch_answer import FetchAnswer, PartitionAnswer, read_fetch_answer

_NO_SESSION, _SESSION_NEVER = i32(0), i32(-1)
# Where the offset lies in a request for one partition, from its end: before the last fetched epoch, the log start, the
# most bytes, and five bytes that say that nothing else follows.
_OFFSET_FROM_END = 8 + 4 + 8 + 4 + 5
_OFFSET = struct.Struct(">q")


class RangeFetches:
    def __init__(self, cluster: Cluster, settings: ClientSettings, wanted: OffsetRange, read_committed: bool) -> None:
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted
        self._isolation_level = i8(read_committed)
        # Who answered last.
        self._source: tuple[Connection, Leader] | None = None
        # From which offset on it was asked last, while the answer is on its way.
        self._asked: int | None = None
        # A request to who answered last, in which only the offset changes from one to the next.
        self._request = b""

    def ask_ahead(self, position: int) -> None:
        """Right after `fetch`, whose answer stays valid; what is fetched next is this. What goes wrong shows then."""
        assert self._source is not None
        assert self._asked is None
        with suppress(NoAnswer):
            self._ask(self._source[0], position)

    def leader(self) -> Leader:
        """Who is asked next. Raises TopicRecreated, TopicMissing, Again, NoAnswer."""
        if self._source is None:
            connection, leader = self._find()
            self._request = self._packed(connection, leader)
            self._source = connection, leader
        return self._source[1]

    def fetch(self, position: int) -> PartitionAnswer:
        """Without an error, or with OFFSET_OUT_OF_RANGE. Its records are valid until the next call.

        Raises Again and NoAnswer, after which it may be called again, and what `leader` raises.
        """
        self.leader()
        assert self._source is not None
        connection, _ = self._source
        try:
            if self._asked is None:
                self._ask(connection, position)
            assert self._asked == position
            self._asked = None
            return self._row(connection.receive(), connection)
        except ClientFailure:
            self._source = None
            self._cluster.forget_leader(self._wanted.topic_partition)
            raise

    def _find(self) -> tuple[Connection, Leader]:
        partition = self._wanted.topic_partition
        leader = self._cluster.leader(partition)
        if leader.topic_id != self._wanted.topic_id:
            # Perhaps it is what we know that is old.
            self._cluster.forget_leader(partition)
            leader = self._cluster.leader(partition)
        self._check_same_topic(leader.topic_id)
        return self._cluster.connection_to(leader), leader

    def _ask(self, connection: Connection, position: int) -> None:
        frame = bytearray(self._request)
        _OFFSET.pack_into(frame, len(frame) - _OFFSET_FROM_END, position)
        settings = self._settings
        # The first batch comes whole, however large.
        limit_bytes = settings.fetch_max_bytes + LARGEST_BATCH_BYTES + MAX_ANSWER_BYTES
        call = Call(frame, True, read_fetch_answer, FetchAnswer.release, limit_bytes)
        connection.send(call, settings.request_timeout_ms + settings.fetch_max_wait_ms)
        self._asked = position

    def close(self) -> None:
        """What is still on its way goes nowhere, and nobody may take it for the answer to something else."""
        if self._asked is not None and self._source is not None:
            self._source[0].close()
        self._asked = None

    def _packed(self, connection: Connection, leader: Leader) -> bytes:
        settings = self._settings
        row = FetchPartition(
            partition=i32(self._wanted.partition),
            current_leader_epoch=i32(leader.leader_epoch),
            fetch_offset=i64(0),
            last_fetched_epoch=i32(-1),
            log_start_offset=i64(-1),
            partition_max_bytes=i32(settings.fetch_max_bytes),
        )
        request = FetchRequest(
            cluster_id=None,
            replica_id=BrokerId(-1),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=settings.fetch_max_wait_ms)),
            min_bytes=i32(1),
            max_bytes=i32(settings.fetch_max_bytes),
            isolation_level=self._isolation_level,
            session_id=_NO_SESSION,
            session_epoch=_SESSION_NEVER,
            topics=(FetchTopic(topic_id=leader.topic_id, partitions=(row,)),),
            forgotten_topics_data=(),
            rack_id="",
        )
        return bytes(connection.call(request, FetchResponse).frame)

    def _row(self, answer: FetchAnswer, connection: Connection) -> PartitionAnswer:
        what = f"{connection.address} says of {self._wanted.topic_partition}"
        if answer.error_code is not ErrorCode.none:
            raise _failure(answer.error_code, what)
        rows = [row for topic in answer.topics for row in topic.partitions if row.partition == self._wanted.partition]
        if len(rows) != 1:
            raise Again(f"{what} nothing: it is being throttled")
        if rows[0].error_code not in (ErrorCode.none, ErrorCode.offset_out_of_range):
            raise _failure(rows[0].error_code, what)
        return rows[0]

    def _check_same_topic(self, topic_id: UUID) -> None:
        wanted = self._wanted
        if topic_id != wanted.topic_id:
            text = f"topic {wanted.topic} was deleted and created again: it had id {wanted.topic_id}, now {topic_id}"
            raise TopicRecreated(f"{text}. The offsets of the query are not of this topic: begin with a new checkpoint")


def _failure(code: ErrorCode, what: str) -> ClientFailure:
    text = f"{what}: {code.name}"
    return Again(text) if code.retriable else ClientFailure(text)
