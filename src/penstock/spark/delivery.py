"""Batches on their way to their leaders: several requests at a time, each batch until it is acknowledged.

As long as all goes well answers are taken when there is no room for more requests. When anything does not, all that is
under way is waited for, and then what is not acknowledged is sent again, one batch of a partition at a time: so no
batch overtakes an earlier one. A batch keeps its sequence, so one that arrived and was not acknowledged is not doubled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.rpc.core.call import Call
from penstock.spark.cluster import Cluster
from penstock.spark.connection import Connection
from penstock.spark.core.failures import Again, ClientFailure, NoAnswer
from penstock.spark.core.topic_partition import TopicPartition, listed
from penstock.spark.core.topics import Leader
from penstock.spark.produce_requests import Identity, Outcome, Outgoing, outcomes_of, produce_call
from penstock.wire.batch import MAX_SEQUENCE, NO_SEQUENCE, read_header
from penstock.wire.records import build_batch, records_of

# Of one connection. A log knows the last five batches of a producer: with more under way it could take a batch that is
# sent again for one that is missing something before it.
_MOST_UNDER_WAY = 5
_LARGEST_PAYLOAD = 2**31 - 1
_WRITTEN = (ErrorCode.none, ErrorCode.duplicate_sequence_number)
_OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number
_FENCED = (
    ErrorCode.invalid_producer_epoch,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.transaction_abortable,
)
_WHY_FENCED = (
    "the transaction was aborted, because it took longer than kafka.transaction.timeout.ms or because another run of "
    "the query has begun"
)


class WriteRefused(ClientFailure):
    """A leader does not take it, and will not take it later."""


@dataclass(eq=False)
class _Gathered:
    """For one leader, not sent yet."""

    leader: Leader
    batches: dict[TopicPartition, Outgoing] = field(default_factory=dict)
    size: int = 0


class Delivery:
    """For one thread. Every method raises ClientFailure: then nothing more can be done with it."""

    def __init__(
        self, cluster: Cluster, identity: Identity, *, acks: int, request_timeout_ms: int, max_request_bytes: int
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._acks = acks
        self._request_timeout_ms = request_timeout_ms
        self._max_request_bytes = max_request_bytes
        self._unacknowledged: dict[TopicPartition, deque[Outgoing]] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._gathered: dict[int, _Gathered] = {}
        self._under_way: dict[Connection, deque[list[Outgoing]]] = {}
        # The largest batch that each topic may take, as far as one was refused for its size.
        self.limits: dict[str, int] = {}

    def post(self, batch: Outgoing) -> None:
        """Sent soon. Batches of a partition in the order of their sequences."""
        self._unacknowledged.setdefault(batch.partition, deque()).append(batch)
        try:
            leader = self._leader(batch.partition)
            gathered = self._gathered.setdefault(leader.node_id, _Gathered(leader))
            if batch.partition in gathered.batches or gathered.size + len(batch.data) > self._max_request_bytes:
                self._send(leader.node_id)
                gathered = self._gathered.setdefault(leader.node_id, _Gathered(leader))
            gathered.batches[batch.partition] = batch
            gathered.size += len(batch.data)
        except (NoAnswer, Again):
            self._send_again()

    def finish(self) -> None:
        """Everything is acknowledged."""
        try:
            for node_id in list(self._gathered):
                self._send(node_id)
            self._receive_all()
        except (NoAnswer, Again):
            self._send_again()

    def _leader(self, partition: TopicPartition) -> Leader:
        """Asking for one takes a connection on which no other answer is due."""
        if partition not in self._leaders:
            self._receive_all()
            self._leaders[partition] = self._cluster.leader(partition)
        return self._leaders[partition]

    def _send(self, node_id: int) -> None:
        gathered = self._gathered.pop(node_id, None)
        if gathered is None or not gathered.batches:
            return
        connection = self._cluster.connection_to(gathered.leader)
        under_way = self._under_way.setdefault(connection, deque())
        while len(under_way) >= _MOST_UNDER_WAY:
            self._receive(connection)
        batches = list(gathered.batches.values())
        connection.send(self._call(connection, batches))
        under_way.append(batches)

    def _call(self, connection: Connection, batches: Sequence[Outgoing]) -> Call[Any]:
        return produce_call(connection, self._identity, self._acks, self._request_timeout_ms, batches)

    def _receive(self, connection: Connection) -> None:
        """One answer. Raises Again if not all of it is good."""
        batches = self._under_way[connection].popleft()
        self._heed(connection, batches, outcomes_of(connection.receive()), is_first=False)

    def _receive_all(self) -> None:
        for connection, under_way in self._under_way.items():
            while under_way:
                self._receive(connection)

    def _heed(
        self,
        connection: Connection,
        batches: Sequence[Outgoing],
        outcomes: Mapping[TopicPartition, Outcome],
        *,
        is_first: bool,
    ) -> None:
        """`is_first`: nothing of their partitions is before these batches. Raises Again for what passes."""
        passing: str | None = None
        for batch in batches:
            outcome = outcomes.get(batch.partition, Outcome(ErrorCode.network_exception, "no word of it"))
            if outcome.code in _WRITTEN:
                self._acknowledge(batch)
                continue
            text = f"{connection.address} says of {batch.partition}: {outcome.text or outcome.code.name}"
            if outcome.code is ErrorCode.message_too_large and batch.record_count > 1:
                self._divide(batch)
                if is_first:
                    # Whoever sends one by one sends the halves next.
                    continue
            elif not outcome.code.retriable and not (outcome.code is _OUT_OF_ORDER and not is_first):
                raise WriteRefused(text if outcome.code not in _FENCED else f"{text}: {_WHY_FENCED}")
            self._cluster.forget_leader(batch.partition)
            passing = passing or text
        if passing is not None:
            raise Again(passing)

    def _acknowledge(self, batch: Outgoing) -> None:
        waiting = self._unacknowledged[batch.partition]
        waiting.remove(batch)
        if not waiting:
            del self._unacknowledged[batch.partition]

    def _divide(self, batch: Outgoing) -> None:
        """Its topic takes smaller ones only: the halves have the sequences that the whole had."""
        topic = batch.partition.topic
        self.limits[topic] = min(self.limits.get(topic, len(batch.data)), len(batch.data) // 2)
        waiting = self._unacknowledged[batch.partition]
        place = waiting.index(batch)
        del waiting[place]
        for half in reversed(list(_halves(batch))):
            waiting.insert(place, half)

    def _send_again(self) -> None:
        """All that is not acknowledged. Returns when it is."""
        self._gathered.clear()
        self._leaders.clear()
        for connection in list(self._under_way):
            self._drain(connection)
        where = listed(self._unacknowledged)
        self._cluster.patiently(f"writing to {where}", self._send_one_by_one)

    def _drain(self, connection: Connection) -> None:
        """What has arrived need not be sent again."""
        under_way = self._under_way.pop(connection)
        while under_way:
            batches = under_way.popleft()
            try:
                answer = connection.receive()
            except NoAnswer:
                return
            try:
                self._heed(connection, batches, outcomes_of(answer), is_first=False)
            except Again:
                continue

    def _send_one_by_one(self) -> None:
        while self._unacknowledged:
            first = {partition: waiting[0] for partition, waiting in self._unacknowledged.items()}
            self._cluster.each_leader(first, lambda connection, rows: self._exchange(connection, first, rows))  # noqa: B023

    def _exchange(
        self, connection: Connection, first: Mapping[TopicPartition, Outgoing], rows: Mapping[TopicPartition, Leader]
    ) -> None:
        for batches in self._fitting([first[partition] for partition in rows]):
            answer = connection.exchange(self._call(connection, batches))
            self._heed(connection, batches, outcomes_of(answer), is_first=True)

    def _fitting(self, batches: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
        request: list[Outgoing] = []
        for batch in batches:
            if request and sum(len(each.data) for each in (*request, batch)) > self._max_request_bytes:
                yield request
                request = []
            request.append(batch)
        if request:
            yield request


def _halves(batch: Outgoing) -> Iterator[Outgoing]:
    header = read_header(batch.data)
    records = list(records_of(memoryview(batch.data), limit_bytes=_LARGEST_PAYLOAD))
    middle = len(records) // 2
    for part in (records[:middle], records[middle:]):
        first = part[0].offset
        sequence = (batch.sequence + first) & MAX_SEQUENCE
        data = build_batch(
            [record._replace(offset=record.offset - first) for record in part],
            compression=header.compression,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=sequence if batch.sequence >= 0 else NO_SEQUENCE,
            is_transactional=header.is_transactional,
        )
        yield Outgoing(batch.partition, data, len(part), sequence)
