"""Requests that arrive on a connection which their client has left: they end no other transaction and enter none, but

where version 1 gives nobody the means to tell (ADR 0008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode
from tests.bad_input.raw import RawConnection, answer_in
from tests.broker.link import Frame, Late, Link
from tests.interop.waiting import eventually
from tests.transactions.node_client import Client
from tests.transactions.raw_client import RawProducer, code_of, init, initialised

import penstock.testing
from penstock.testing.node import TestNode

PRODUCE, END_TXN = 0, 26
WAIT_S = 15.0


class Way:
    """To a node; a request may stay behind on it."""

    def __init__(self) -> None:
        self._late: dict[int, Late] = {}
        self.link = Link(self._fate)
        self.node: TestNode | None = None

    def _fate(self, frame: Frame) -> Late | None:
        return self._late.pop(frame.api_key, None)

    def hold_next(self, api_key: int) -> Late:
        late = self._late[api_key] = Late()
        return late


class LeftBehind(NamedTuple):
    request: Any
    correlation_id: int
    late: Late

    def arrives(self) -> Any | None:
        """The answer to it; None: the node hung up."""
        frame = self.late.arrive()
        return None if frame is None else answer_in(frame, self.request, self.correlation_id)


class LeavingClient(Client):
    def __init__(self, node: TestNode, way: Way) -> None:
        super().__init__(node, way.link.address)
        self._way = way

    def leave(self, request: Any) -> LeftBehind:
        """Sends it, loses the connection, and has another one."""
        late = self._way.hold_next(request.__api_key__)
        correlation_id = self.connection.send(request)
        assert late.is_held.wait(WAIT_S)
        assert self.connection.wait_until_closed() == b""
        self.reconnect()
        return LeftBehind(request, correlation_id, late)

    def batch(self, producer: RawProducer, topic: str, sequence: int) -> Any:
        return producer.produce(topic, sequence, b"late", now_ms=self.node.now_ms())

    def add(self, producer: RawProducer, topic: str, partition: int = 0) -> None:
        """Which begins a transaction. In version 2 the first batch does."""
        if producer.version == 1:
            # While the markers of the one before are being written it is refused.
            added = (ErrorCode.none,)
            eventually(lambda: code_of(self.ask(producer.add(topic, partition))) in added, "it is added")

    def ended(self, producer: RawProducer, *, commit: bool) -> RawProducer:
        return producer.ended_by(self.ask(producer.end(commit=commit)))


@pytest.fixture(scope="module")
def way() -> Iterator[Way]:
    way = Way()
    settings = {"advertised.listener": way.link.address, "transaction.state.log.num.partitions": "1"}
    with penstock.testing.node(settings) as node, way.link.leading_to(node.bootstrap):
        way.node = node
        yield way


@pytest.fixture
def client(way: Way) -> Iterator[LeavingClient]:
    assert way.node is not None
    client = LeavingClient(way.node, way)
    try:
        yield client
    finally:
        client.connection.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A transactional id."""
    return str(request.node.name)


def next_sequence(producer: RawProducer, sequence: int) -> int:
    """Of another transaction: in version 2 it begins an epoch."""
    return sequence if producer.version == 1 else 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_late_end_does_not_end_the_next_transaction(client: LeavingClient, name: str, version: int) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, version)
    late = client.leave(producer.end())
    after = client.ended(producer, commit=True)
    client.add(after, topic)
    assert client.produce(after, topic, next_sequence(after, 1)) is ErrorCode.none
    answer = late.arrives()
    if version == 1:
        assert answer is None, "on its connection nothing of this transaction can come"
    else:
        assert answer is not None and answer.error_code is ErrorCode.producer_fenced
    assert client.state(name) == "Ongoing"
    assert client.offsets(topic) == (2, 3)
    client.ended(after, commit=False)
    client.until_stable(topic)


@pytest.mark.parametrize("version", [1, 2])
def test_a_late_end_finds_its_own_transaction_ended(client: LeavingClient, name: str, version: int) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, version)
    late = client.leave(producer.end())
    after = client.ended(producer, commit=True)
    eventually(lambda: client.state(name) == "CompleteCommit", "it is complete")
    assert producer.ended_by(late.arrives()) == after
    assert client.state(name) == "CompleteCommit"
    assert client.offsets(topic) == (2, 2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_late_end_does_not_turn_the_other_one_round(client: LeavingClient, name: str, version: int) -> None:
    topic = client.topic()
    producer = client.begun(name, topic, version)
    late = client.leave(producer.end(commit=True))
    client.ended(producer, commit=False)
    eventually(lambda: client.state(name) == "CompleteAbort", "it is complete")
    answer = late.arrives()
    assert answer is not None and answer.error_code is ErrorCode.invalid_txn_state
    assert client.state(name) == "CompleteAbort"


@pytest.mark.parametrize("version", [1, 2])
def test_a_late_batch_that_was_sent_again_is_there_once(client: LeavingClient, name: str, version: int) -> None:
    topic = client.topic()
    producer = initialised(client.connection, name, version)
    client.add(producer, topic)
    late = client.leave(client.batch(producer, topic, 0))
    assert client.produce(producer, topic, 0) is ErrorCode.none
    after = client.ended(producer, commit=True)
    client.add(after, topic)
    assert client.produce(after, topic, next_sequence(after, 1)) is ErrorCode.none
    # In version 1 it is told by its sequence.
    expected = ErrorCode.none if version == 1 else ErrorCode.invalid_producer_epoch
    assert code_of(late.arrives()) is expected
    assert client.offsets(topic) == (2, 3)
    client.ended(after, commit=False)
    client.until_stable(topic)


def nothing(client: LeavingClient, producer: RawProducer, topic: str) -> None:
    client.until_stable(topic)


def elsewhere(client: LeavingClient, producer: RawProducer, topic: str) -> None:
    client.add(producer, topic, 1)
    assert client.produce(producer, topic, 0, partition=1) is ErrorCode.none


def there(client: LeavingClient, producer: RawProducer, topic: str) -> None:
    client.add(producer, topic)
    assert client.produce(producer, topic, next_sequence(producer, 1)) is ErrorCode.none


def there_with_a_new_epoch(client: LeavingClient, producer: RawProducer, topic: str) -> None:
    """As clients do who do not know what became of a batch (KIP-360)."""
    answers: list[Any] = []

    def is_initialised() -> bool:
        answers.append(client.ask(init(producer.transactional_id, producer=producer)))
        return answers[-1].error_code is ErrorCode.none

    eventually(is_initialised, "it has another epoch")
    newer = RawProducer(producer.transactional_id, answers[-1].producer_id, answers[-1].producer_epoch, 1)
    client.add(newer, topic)


@pytest.mark.parametrize(
    ("version", "goes_on", "expected"),
    [
        (1, nothing, ErrorCode.transaction_abortable),
        (1, elsewhere, ErrorCode.transaction_abortable),
        (1, there, ErrorCode.none),
        (1, there_with_a_new_epoch, ErrorCode.invalid_producer_epoch),
        (2, nothing, ErrorCode.invalid_producer_epoch),
        (2, elsewhere, ErrorCode.invalid_producer_epoch),
        (2, there, ErrorCode.invalid_producer_epoch),
    ],
)
def test_a_late_batch_of_an_aborted_transaction_is_not_written(
    client: LeavingClient,
    name: str,
    version: int,
    goes_on: Callable[[LeavingClient, RawProducer, str], None],
    expected: ErrorCode,
) -> None:
    """Where the next one has written there, it seems to be the batch that has its sequence."""
    topic = client.topic(partitions=2)
    producer = client.begun(name, topic, version)
    late = client.leave(client.batch(producer, topic, 1))
    goes_on(client, client.ended(producer, commit=False), topic)
    before = client.offsets(topic)
    assert code_of(late.arrives()) is expected
    assert client.offsets(topic) == before


def test_a_late_batch_of_version_1_enters_a_transaction_that_has_nothing_in_its_partition_yet(
    client: LeavingClient, name: str
) -> None:
    """What remains open: the partition is in the transaction, epoch and sequence are right. Only of a client that goes

    on without another epoch although it does not know what became of its batch.
    """
    topic = client.topic()
    producer = client.begun(name, topic, 1)
    late = client.leave(client.batch(producer, topic, 1))
    client.ended(producer, commit=False)
    client.add(producer, topic)
    assert code_of(late.arrives()) is ErrorCode.none
    assert client.offsets(topic) == (2, 3)
    client.ended(producer, commit=False)
    client.until_stable(topic)


def test_a_late_end_of_version_1_counts_if_the_next_transaction_is_used_on_an_older_connection(
    client: LeavingClient, name: str
) -> None:
    """What remains open: of a client that has several connections to its coordinator at a time."""
    topic = client.topic()
    producer = client.begun(name, topic, 1)
    older, client.connection = client.connection, RawConnection(client.bootstrap)
    late = client.leave(producer.end())
    client.connection.close()
    client.connection = older
    client.ended(producer, commit=True)
    client.add(producer, topic)
    assert client.produce(producer, topic, 1) is ErrorCode.none
    answer = late.arrives()
    assert answer is not None and answer.error_code is ErrorCode.none
    client.until_stable(topic)


@pytest.mark.parametrize("api_key", [PRODUCE, END_TXN])
def test_a_real_client_loses_and_repeats_nothing(client: LeavingClient, way: Way, name: str, api_key: int) -> None:
    topic = client.topic()
    producer = Producer(
        {
            "bootstrap.servers": way.link.address,
            "transactional.id": name,
            "linger.ms": 0,
            "reconnect.backoff.ms": 10,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    late = way.hold_next(api_key)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(WAIT_S)
    assert late.is_held.is_set()
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    assert producer.flush(WAIT_S) == 0
    frame = late.arrive()
    assert (frame is None) == (api_key == END_TXN)
    assert client.offsets(topic) == (2, 3)
    assert client.state(name) == "Ongoing"
    producer.abort_transaction(WAIT_S)
    client.until_stable(topic)
    assert committed(way.link.address, topic) == [b"committed"]


def committed(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
        values.append(message.value() or b"")
    assert message is not None
    consumer.close()
    return values
