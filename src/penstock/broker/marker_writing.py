"""Markers of transactions that coordinators send to this broker, written to the partitions that it leads."""

from __future__ import annotations

from penstock.clock import Clock
from penstock.cluster.core.image import INTERNAL_TOPICS, Image
from penstock.cluster.core.messages import MarkerRow, Reply, ReplyRow, WriteMarkers
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import OFFSETS_TOPIC, Groups
from penstock.groups.core.transaction_events import TransactionEnded, TransactionEndedAnswer
from penstock.later import Later, gather
from penstock.replication.partition import NOT_LEADING, Committed, Partition
from penstock.replication.replicas import Replicas
from penstock.replication.transaction_markers import append_marker
from penstock.units import SECOND_MS

# Whoever sent them asks again.
COMMIT_TIMEOUT_MS = 10 * SECOND_MS
_BUMPING_VERSION = 2
_DONE = ReplyRow()


class MarkerWriting:
    """Answers when they are committed.

    In version 1 nothing in a marker tells it from that of the producer's next transaction. Coordinators use connections
    one after another, so what comes on one that is older than the newest of its sender was sent again since, and has
    been answered perhaps: it is refused. So is what was sent in an earlier leader epoch: another one may have led since
    and had it instead, and then its sender need not have come back here.
    """

    def __init__(self, replicas: Replicas, groups: Groups, image: Image, clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._image = image
        self._clock = clock
        # By broker: the number of the newest connection that markers came on.
        self._newest: dict[int, int] = {}

    def write(self, message: WriteMarkers, connection: int) -> Later[Reply]:
        """Of another broker."""
        if message.node_id not in self._image.brokers:
            text = f"broker {message.node_id} is not known here"
            return Later.of(Reply.refused(Refused(Problem.STORE_UNAVAILABLE, text)))
        newest = self._newest.get(message.node_id, 0)
        if connection < newest:
            text = "markers came on a connection that their sender has left"
            return Later.of(Reply.refused(Refused(Problem.TRANSACTION_OVERTAKEN, text)))
        self._newest[message.node_id] = connection
        return self.write_here(message)

    def write_here(self, message: WriteMarkers) -> Later[Reply]:
        """Of this broker itself, if it comes without a connection."""
        written = [self._write(marker, *place) for marker in message.markers for place in marker.places()]
        return gather(written).map(lambda rows: Reply(rows=tuple(rows)))

    def _write(self, marker: MarkerRow, topic: str, index: int, leader_epoch: int) -> Later[ReplyRow]:
        partition = self._replicas.find(topic, index)
        if isinstance(partition, Partition) and leader_epoch < partition.leader_epoch:
            return Later.of(_refused(NOT_LEADING))
        if topic == OFFSETS_TOPIC:
            event = TransactionEnded(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.commit,
                bumps_epoch=marker.transaction_version >= _BUMPING_VERSION,
            )
            return self._in_time(self._groups.end_transaction(index, event).map(_ended))
        if topic in INTERNAL_TOPICS:
            # They have no transactions in them, whoever asked for one.
            return Later.of(_DONE)
        if isinstance(partition, Refused):
            return Later.of(_refused(partition))
        now_ms = self._clock.now_ms()
        appended = append_marker(
            self._replicas,
            partition,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            commit=marker.commit,
            version=marker.transaction_version,
            now_ms=now_ms,
        )
        if isinstance(appended, Refused):
            return Later.of(_refused(appended))
        return partition.when_committed(appended.next_offset, now_ms + COMMIT_TIMEOUT_MS).map(_committed)

    def _in_time(self, answer: Later[ReplyRow]) -> Later[ReplyRow]:
        """A machine answers when its partition commits, however long that takes, and all else in the request waits."""
        if answer.done:
            return answer
        timed: Later[ReplyRow] = Later()
        late = ReplyRow(Problem.REQUEST_TIMED_OUT.name, "it is written, but was not committed in time")
        timer = self._clock.call_at(self._clock.now_ms() + COMMIT_TIMEOUT_MS, lambda: timed.complete(late))
        timed.when_done(lambda _: timer.cancel())
        answer.when_done(timed.settle_like)
        return timed


def _ended(answer: TransactionEndedAnswer | Refused) -> ReplyRow:
    if isinstance(answer, Refused):
        return _refused(answer)
    return _DONE if answer.problem is None else ReplyRow(answer.problem.name)


def _committed(refused: Committed) -> ReplyRow:
    if refused is None or refused.problem is Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        return _DONE
    return _refused(refused)


def _refused(refused: Refused) -> ReplyRow:
    return ReplyRow(refused.problem.name, refused.text)
