"""Batches of a query over the wire: many transactions, one commit, and what readers see of it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kio.schema.errors import ErrorCode
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.interop.waiting import eventually
from tests.transactions.node_client import Client
from tests.transactions.raw_client import RawProducer, find_coordinator

from penstock.testing.node import TestNode, node
from penstock.wire.query_ids import attempt_id
from penstock.wire.query_messages import (
    Abort,
    Attempt,
    Commit,
    Open,
    QueryReply,
    QueryRequest,
    decode_reply,
)
from penstock.wire.schemas import QUERY

_HEAD = struct.Struct(">hhih")
TIMEOUT_MS = 60_000
numbers = itertools.count()


@pytest.fixture(scope="module")
def served() -> Iterator[TestNode]:
    with node({"transaction.state.log.num.partitions": "8"}) as running:
        yield running


@pytest.fixture
def client(served: TestNode) -> Iterator[Client]:
    client = Client(served)
    yield client
    client.connection.close()


@pytest.fixture
def query(client: Client) -> str:
    name = f"query-{next(numbers)}"
    found(client, name)
    return name


def found(client: Client, query: str) -> None:
    def is_found() -> bool:
        (row,) = client.ask(find_coordinator(attempt_id(query, 0))).coordinators
        return bool(row.error_code is ErrorCode.none)

    eventually(is_found, "the query has a coordinator")


def ask(connection: RawConnection, request: QueryRequest) -> QueryReply:
    connection.send_frame(_HEAD.pack(QUERY, 0, 7, -1) + msgspec.json.encode(request))
    frame = connection.receive_frame()
    assert frame[:4] == b"\x00\x00\x00\x07"
    return decode_reply(frame[4:])


def written(client: Client, query: str, topic: str, batch_id: int = 0, run: str = "a", value: bytes = b"x") -> Attempt:
    reply = ask(client.connection, Open(query, run, batch_id, TIMEOUT_MS))
    assert reply.attempt is not None, reply
    attempt = reply.attempt
    producer = RawProducer(attempt.transactional_id, attempt.producer_id, attempt.producer_epoch, 2)
    assert client.produce(producer, topic, 0, value) is ErrorCode.none
    return attempt


def test_a_batch_is_seen_when_it_is_committed_and_all_of_it(client: Client, query: str) -> None:
    topic = client.topic()
    attempts = tuple(written(client, query, topic) for _ in range(3))
    assert len({attempt.transactional_id for attempt in attempts}) == 3
    assert client.offsets(topic) == (0, 3)
    assert ask(client.connection, Commit(query, "a", 0, attempts)) == QueryReply()
    client.until_stable(topic)
    assert client.offsets(topic) == (6, 6), "three records, three markers"
    assert ask(client.connection, Commit(query, "a", 0, attempts)) == QueryReply(is_committed=True)
    assert ask(client.connection, Open(query, "b", 0, TIMEOUT_MS)) == QueryReply(is_committed=True)


def test_transactions_are_used_again(client: Client, query: str) -> None:
    topic = client.topic()
    names = set()
    for batch_id in range(5):
        attempt = written(client, query, topic, batch_id)
        names.add(attempt.transactional_id)
        assert ask(client.connection, Commit(query, "a", batch_id, (attempt,))) == QueryReply()
        eventually(lambda: client.state(attempt.transactional_id) == "CompleteCommit", "it is finished")  # noqa: B023
    assert len(names) == 1


def test_a_new_run_aborts_what_was_left_open(client: Client, query: str) -> None:
    topic = client.topic()
    left = written(client, query, topic, run="a")
    mine = written(client, query, topic, run="b")
    eventually(lambda: client.state(left.transactional_id) == "CompleteAbort", "it is aborted")
    late = ask(client.connection, Commit(query, "a", 0, (left,)))
    assert (late.problem, "another run" in late.text) == ("PRODUCER_FENCED", True)
    assert ask(client.connection, Commit(query, "b", 0, (mine,))) == QueryReply()


def test_a_driver_that_gives_up_leaves_nothing_open(client: Client, query: str) -> None:
    topic = client.topic()
    attempt = written(client, query, topic)
    assert ask(client.connection, Abort(query, "a", 0)) == QueryReply()
    client.until_stable(topic)
    refused = ask(client.connection, Commit(query, "a", 0, (attempt,)))
    assert refused.problem == "INVALID_TXN_STATE"


def test_what_is_committed_survives_a_restart(tmp_path: Path) -> None:
    with node(data_dir=str(tmp_path)) as running:
        client = Client(running)
        found(client, "nightly")
        topic = client.topic()
        first = written(client, "nightly", topic)
        assert ask(client.connection, Commit("nightly", "a", 0, (first,))) == QueryReply()
        left = written(client, "nightly", topic, 1)
        client.connection.close()
    with node(data_dir=str(tmp_path)) as running:
        client = Client(running)
        found(client, "nightly")
        known, again = QueryReply(is_committed=True), Commit("nightly", "a", 0, (first,))
        eventually(lambda: ask(client.connection, again) == known, "it is known")
        assert ask(client.connection, Commit("nightly", "a", 1, (left,))) == QueryReply()
        client.until_stable(topic)
        client.connection.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"ask": "open"}',
        b"[" * 100_000,
        b'{"ask":"abort","query":"","run":"a","batch_id":0}',
        b'{"ask":"abort","query":"q","run":"a","batch_id":-1}',
        msgspec.json.encode(Open("q" * 513, "a", 0, 1)),
        msgspec.json.encode(Commit("q", "a", 0, (Attempt("id", 1, 2),) * 10_001)),
    ],
    ids=["nothing", "empty", "fields missing", "nested", "nameless", "negative", "long name", "too many"],
)
def test_what_is_no_request_ends_its_connection_and_nothing_else(served: TestNode, body: bytes) -> None:
    with RawConnection(served.bootstrap) as connection:
        connection.send_frame(_HEAD.pack(QUERY, 0, 7, -1) + body)
        with pytest.raises(ConnectionClosed):
            connection.receive_frame()
