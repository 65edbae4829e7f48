"""Requests of transactions that are not what they should be: each is refused, and nothing is any different for it.

Behind every one of them the state of all transactions is as before, and the next transaction of the same producer, in
the same partition, is read to its end: the last stable offset is not stuck.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest as AddByBroker
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest as InitProducerId6
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.static.primitive import i8, i16, i32
from tests.bad_input import requests
from tests.bad_input.batches import good_batch, tampered
from tests.bad_input.broker import Broker
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually
from tests.transactions.raw_client import RawProducer, find_coordinator, init, initialised

NOBODY = "of nobody"
LONG = "x" * 10_000
GROUP = "billing"
MAX_TIMEOUT_MS = 15 * 60 * 1000


@dataclass(frozen=True)
class Scene:
    """A producer of version 1 or 2, and another one, which has a transactional id of its own."""

    connection: RawConnection
    topic: str
    producer: RawProducer
    other: RawProducer

    @property
    def foreign(self) -> RawProducer:
        """Says that the other's id is its own."""
        return replace(self.producer, id=self.other.id, epoch=self.other.epoch)

    @property
    def early(self) -> RawProducer:
        return replace(self.producer, epoch=self.producer.epoch + 1)

    @property
    def late(self) -> RawProducer:
        return replace(self.producer, epoch=self.producer.epoch - 1)

    def named(self, transactional_id: str) -> RawProducer:
        return replace(self.producer, transactional_id=transactional_id)

    def write(self, producer: RawProducer, partition: int = 0) -> Any:
        return producer.produce(self.topic, 0, b"bad", partition, now_ms=now_ms())

    # What is there

    def offsets(self) -> tuple[int, int]:
        """The last stable offset and the high watermark."""
        (row,) = self.connection.ask(requests.fetch(self.topic)).responses[0].partitions
        return row.last_stable_offset, row.high_watermark

    def everything(self) -> tuple[Any, ...]:
        listed = self.connection.ask(ListTransactionsRequest())
        assert listed.error_code is ErrorCode.none
        self.connection.send(describe(self.producer.transactional_id, self.other.transactional_id))
        # Behind the correlation id. What has not begun has a start of -1, which not every reader can take.
        described = self.connection.receive_frame()[4:]
        return sorted(map(str, listed.transaction_states)), described, self.offsets()

    # What a good client does

    def begin(self) -> None:
        """With a record in partition 0."""
        if self.producer.version == 1:
            assert errors_in(self.connection.ask(self.producer.add(self.topic, 0))) == set()
        written = self.connection.ask(self.producer.produce(self.topic, self.sequence(), b"good", now_ms=now_ms()))
        assert errors_in(written) == set()

    def sequence(self) -> int:
        """Version 2 begins with 0 in every transaction; before, they go on. Every other offset here is a marker's."""
        return 0 if self.producer.version == 2 else self.offsets()[1] // 2

    def end(self) -> Scene:
        """Who it is for the next transaction, when all can be read."""
        producer = self.producer.ended_by(self.connection.ask(self.producer.end()))
        eventually(self._is_over, "the last stable offset has moved")
        return replace(self, producer=producer)

    def _is_over(self) -> bool:
        rows = self.connection.ask(ListTransactionsRequest()).transaction_states
        states = {row.transactional_id: row.transaction_state for row in rows}
        stable_offset, high_watermark = self.offsets()
        return stable_offset == high_watermark and states[self.producer.transactional_id] == "CompleteCommit"


def now_ms() -> int:
    return int(time.time() * 1000)


def describe(*names: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=tuple(TransactionalId(name) for name in names))


def errors_in(answer: Any) -> set[ErrorCode]:
    """All that it names, wherever."""
    if isinstance(answer, ErrorCode):
        return set() if answer is ErrorCode.none else {answer}
    if dataclasses.is_dataclass(answer):
        answer = tuple(getattr(answer, field.name) for field in dataclasses.fields(answer))
    return set().union(*map(errors_in, answer)) if isinstance(answer, tuple) else set()


Bad = dict[str, tuple[Callable[[Scene], Any], ErrorCode]]

PRODUCE: Bad = {
    "an id that nobody has": (lambda at: at.write(at.named(NOBODY)), ErrorCode.invalid_producer_id_mapping),
    "an id without a name": (lambda at: at.write(at.named("")), ErrorCode.invalid_request),
    "an id of 10 KB": (lambda at: at.write(at.named(LONG)), ErrorCode.invalid_request),
    "another's producer id": (lambda at: at.write(at.foreign), ErrorCode.invalid_producer_id_mapping),
    "a producer id of nobody": (
        lambda at: at.write(replace(at.producer, id=2**62)),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "an epoch that does not exist yet": (lambda at: at.write(at.early), ErrorCode.invalid_producer_epoch),
    "an epoch that is over": (lambda at: at.write(at.late), ErrorCode.invalid_producer_epoch),
}
ADD_PARTITIONS: Bad = {
    "an id that nobody has": (lambda at: at.named(NOBODY).add(at.topic, 0), ErrorCode.invalid_producer_id_mapping),
    "an id without a name": (lambda at: at.named("").add(at.topic, 0), ErrorCode.invalid_request),
    "an id of 10 KB": (lambda at: at.named(LONG).add(at.topic, 0), ErrorCode.invalid_request),
    "another's producer id": (lambda at: at.foreign.add(at.topic, 0), ErrorCode.invalid_producer_id_mapping),
    "an epoch that does not exist yet": (lambda at: at.early.add(at.topic, 0), ErrorCode.producer_fenced),
    "an epoch that is over": (lambda at: at.late.add(at.topic, 0), ErrorCode.producer_fenced),
    "a topic that does not exist": (
        lambda at: at.producer.add("nowhere", 0),
        ErrorCode.unknown_topic_or_partition,
    ),
    "a partition that does not exist": (lambda at: at.producer.add(at.topic, 5), ErrorCode.unknown_topic_or_partition),
    "a partition below 0": (lambda at: at.producer.add(at.topic, -1), ErrorCode.unknown_topic_or_partition),
    "an internal topic": (
        lambda at: at.producer.add("__consumer_offsets", 0),
        ErrorCode.invalid_topic_exception,
    ),
}
OFFSETS: Bad = {
    "added for an id that nobody has": (
        lambda at: at.named(NOBODY).add_offsets(GROUP),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "added for an id without a name": (lambda at: at.named("").add_offsets(GROUP), ErrorCode.invalid_request),
    "added for an id of 10 KB": (lambda at: at.named(LONG).add_offsets(GROUP), ErrorCode.invalid_request),
    "added by another's producer id": (
        lambda at: at.foreign.add_offsets(GROUP),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "added in an epoch that does not exist yet": (
        lambda at: at.early.add_offsets(GROUP),
        ErrorCode.producer_fenced,
    ),
    "added in an epoch that is over": (lambda at: at.late.add_offsets(GROUP), ErrorCode.producer_fenced),
    "added for a group without a name": (lambda at: at.producer.add_offsets(""), ErrorCode.invalid_group_id),
    "added for a group of 10 KB": (lambda at: at.producer.add_offsets(LONG), ErrorCode.invalid_group_id),
    "committed for an id that nobody has": (
        lambda at: at.named(NOBODY).commit_offset(GROUP, at.topic, 1),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "committed by another's producer id": (
        lambda at: at.foreign.commit_offset(GROUP, at.topic, 1),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "committed in an epoch that does not exist yet": (
        lambda at: at.early.commit_offset(GROUP, at.topic, 1),
        ErrorCode.invalid_producer_epoch,
    ),
    "committed in an epoch that is over": (
        lambda at: at.late.commit_offset(GROUP, at.topic, 1),
        ErrorCode.invalid_producer_epoch,
    ),
    "committed for a topic that does not exist": (
        lambda at: at.producer.commit_offset(GROUP, "nowhere", 1),
        ErrorCode.unknown_topic_or_partition,
    ),
}
END: Bad = {
    "an id that nobody has": (lambda at: at.named(NOBODY).end(), ErrorCode.invalid_producer_id_mapping),
    "an id without a name": (lambda at: at.named("").end(), ErrorCode.invalid_request),
    "an id of 10 KB": (lambda at: at.named(LONG).end(), ErrorCode.invalid_request),
    "another's producer id": (lambda at: at.foreign.end(), ErrorCode.invalid_producer_id_mapping),
    "an epoch that does not exist yet": (lambda at: at.early.end(commit=False), ErrorCode.producer_fenced),
}
INIT: Bad = {
    "an id without a name": (lambda at: init(""), ErrorCode.invalid_request),
    "an id of 10 KB": (lambda at: init(LONG), ErrorCode.invalid_request),
    "a timeout beyond the limit": (
        lambda at: init(at.producer.transactional_id, MAX_TIMEOUT_MS + 1),
        ErrorCode.invalid_transaction_timeout,
    ),
    "no timeout": (lambda at: init(at.producer.transactional_id, 0), ErrorCode.invalid_transaction_timeout),
    "a timeout below 0": (lambda at: init(at.producer.transactional_id, -1), ErrorCode.invalid_transaction_timeout),
    "another's producer id": (
        lambda at: init(at.producer.transactional_id, producer=at.other),
        ErrorCode.producer_fenced,
    ),
    "an epoch that does not exist yet": (
        lambda at: init(at.producer.transactional_id, producer=at.early),
        ErrorCode.producer_fenced,
    ),
    "a producer id without an epoch": (
        lambda at: init(at.producer.transactional_id, producer=replace(at.producer, epoch=-1)),
        ErrorCode.invalid_request,
    ),
    "two-phase commit": (lambda at: two_phases(at), ErrorCode.transactional_id_authorization_failed),
}
OTHERS: Bad = {
    "a coordinator of no name": (lambda at: find_coordinator(""), ErrorCode.invalid_request),
    "markers": (lambda at: markers(at), ErrorCode.cluster_authorization_failed),
}
BEFORE = {
    "Produce": PRODUCE,
    "AddPartitionsToTxn": ADD_PARTITIONS,
    "offsets": OFFSETS,
    "EndTxn": END,
    "InitProducerId": INIT,
    "others": OTHERS,
}
# Only in the course of a transaction do these mean anything.
WITHIN: Bad = {
    "the end of it by another's producer id": (lambda at: at.foreign.end(), ErrorCode.invalid_producer_id_mapping),
    "the end of it in an epoch that is over": (lambda at: at.late.end(commit=False), ErrorCode.producer_fenced),
    "a batch of its producer outside of it": (lambda at: outside(at), ErrorCode.invalid_txn_state),
    **{f"a producer with {what}": case for what, case in INIT.items()},
    # With this producer's id and epoch a batch is in its transaction, whatever it calls it: nobody is asked again.
    **{f"a batch with {what}": case for what, case in PRODUCE.items() if not what.startswith("an id")},
    "markers": OTHERS["markers"],
}


def two_phases(at: Scene) -> InitProducerId6:
    name = TransactionalId(at.producer.transactional_id)
    return InitProducerId6(transactional_id=name, transaction_timeout=requests.timeout(1000), enable2_pc=True)


def markers(at: Scene) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=ProducerId(at.producer.id),
        producer_epoch=i16(at.producer.epoch + 1),
        transaction_result=True,
        topics=(WritableTxnMarkerTopic(name=TopicName(at.topic), partition_indexes=(i32(0),)),),
        coordinator_epoch=i32(100),
    )
    return WriteTxnMarkersRequest(markers=(marker,))


def outside(at: Scene) -> Any:
    sequence = at.sequence() + 1
    batch = tampered(good_batch(), producer_id=at.producer.id, producer_epoch=at.producer.epoch, base_sequence=sequence)
    return requests.produce(at.topic, batch)


@pytest.fixture
def scene(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """`request.param` is the version of transactions that its producers speak."""
    if not broker.is_penstock:
        pytest.skip("Apache Kafka takes long transactional ids, and markers from clients")
    with broker.connect() as connection:
        group = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(GROUP,))
        eventually(lambda: errors_in(connection.ask(group)) == set(), "the group has a coordinator")
        producers = []
        for _ in range(2):
            name = broker.name("id")
            initialised(connection, name, request.param)
            # Again, so that there is an epoch which is over.
            producers.append(initialised(connection, name, request.param))
        yield Scene(connection, broker.topic(partitions=2), *producers)


@pytest.mark.parametrize(
    ("scene", "api"),
    [*((2, api) for api in BEFORE), (1, "Produce"), (1, "offsets"), (1, "EndTxn")],
    indirect=["scene"],
)
def test_before_a_transaction(scene: Scene, api: str) -> None:
    for what, (request, expected) in BEFORE[api].items():
        before = scene.everything()
        assert errors_in(scene.connection.ask(request(scene))) == {expected}, what
        assert scene.everything() == before, what
        scene.begin()
        scene = scene.end()


@pytest.mark.parametrize("scene", [1, 2], indirect=True)
def test_within_a_transaction(scene: Scene) -> None:
    for what, (request, expected) in WITHIN.items():
        scene.begin()
        before = scene.everything()
        assert errors_in(scene.connection.ask(request(scene))) == {expected}, what
        assert scene.everything() == before, what
        scene = scene.end()


@pytest.mark.parametrize("scene", [1], indirect=True)
def test_what_was_never_added(scene: Scene) -> None:
    """Version 2 adds it by itself."""
    scene.begin()
    before = scene.everything()
    for request in (scene.write(scene.producer, 1), scene.producer.commit_offset(GROUP, scene.topic, 1)):
        assert errors_in(scene.connection.ask(request)) == {ErrorCode.transaction_abortable}
        assert scene.everything() == before
    scene.end()


@pytest.mark.parametrize("scene", [2], indirect=True)
def test_a_partition_of_nowhere_added_as_only_brokers_do(scene: Scene) -> None:
    """It is taken for one that this broker has not heard of yet, and keeps nobody else waiting."""
    scene.begin()
    places = (("nowhere", 0), ("__consumer_offsets", 10_000), (scene.topic, 7))
    rows = tuple(AddPartitionsToTxnTopic(name=TopicName(name), partitions=(i32(index),)) for name, index in places)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=TransactionalId(scene.producer.transactional_id),
        producer_id=ProducerId(scene.producer.id),
        producer_epoch=i16(scene.producer.epoch),
        verify_only=False,
        topics=rows,
    )
    scene.connection.ask(AddByBroker(transactions=(transaction,)))
    scene.producer.ended_by(scene.connection.ask(scene.producer.end()))
    eventually(lambda: scene.offsets() == (2, 2), "the last stable offset has moved")
