"""The bytes of __transaction_state."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, Problem
from penstock.transactions.core.query import Claim, Query
from penstock.transactions.core.records import QueryRecord, TransactionRecord, decode, encode
from penstock.transactions.core.transaction import Ending, Producer, TopicPartitions, Transaction, TransactionState

numbers = st.integers(-1, 2**63 - 1)
producers = st.builds(Producer, numbers, st.integers(-1, 2**15 - 1))
topics = st.lists(st.builds(TopicPartitions, st.text(max_size=5), st.lists(st.integers(0, 9)).map(tuple))).map(tuple)
transactions = st.builds(
    Transaction,
    producers,
    st.sampled_from(TransactionState),
    numbers,
    numbers,
    numbers,
    topics,
    st.none() | producers,
    st.none() | st.builds(Ending, producers, st.integers(1, 2)),
    st.integers(0, 2**40),
    st.none() | st.builds(Claim, st.text(max_size=5), st.text(max_size=5), numbers),
)
queries = st.builds(
    Query, st.text(max_size=5), numbers, numbers, numbers, st.lists(st.text(max_size=5)).map(tuple), st.booleans()
)


@given(st.builds(TransactionRecord, st.text(), st.none() | transactions))
def test_a_record_comes_back_from_its_bytes(record: TransactionRecord) -> None:
    key, value = encode(record)
    assert decode(key, value) == record
    assert encode(TransactionRecord(record.transactional_id, None)) == (key, None), "compaction goes by the key"


@given(st.builds(QueryRecord, st.text(), st.none() | queries))
def test_a_query_comes_back_from_its_bytes(record: QueryRecord) -> None:
    key, value = encode(record)
    assert decode(key, value) == record
    assert encode(QueryRecord(record.query, None)) == (key, None), "compaction goes by the key"


def test_the_bytes_stay_what_they_are() -> None:
    value = Transaction(
        Producer(7, 2),
        TransactionState.PREPARE_COMMIT,
        60_000,
        5,
        4,
        (TopicPartitions("t", (0, 1)),),
        Producer(7, 1),
        Ending(Producer(7, 2), 2),
        3,
        Claim("q", "run", 4),
    )
    key, data = encode(TransactionRecord("id", value))
    assert key == b"\x01" + msgspec.msgpack.encode(["id"])
    assert data == b"\x01" + msgspec.msgpack.encode(
        [[7, 2], "PrepareCommit", 60_000, 5, 4, [["t", [0, 1]]], [7, 1], [[7, 2], 2], 3, ["q", "run", 4]]
    )
    key, data = encode(QueryRecord("q", Query("run", 5, 4, 3, ("before",), True)))
    assert key == b"\x02" + msgspec.msgpack.encode(["q"])
    assert data == b"\x01" + msgspec.msgpack.encode(["run", 5, 4, 3, ["before"], True])


def test_a_record_from_before_there_were_queries_is_read() -> None:
    value = b"\x01" + msgspec.msgpack.encode([[7, 2], "Empty", 60_000, 5, -1, [], None, None, 3])
    record = decode(b"\x01" + msgspec.msgpack.encode(["id"]), value)
    assert record == TransactionRecord("id", Transaction(Producer(7, 2), TransactionState.EMPTY, 60_000, 5, ends=3))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (b"", b"\x01\xc0", Problem.CORRUPT_RECORDS),
        (b"\x01\x91\xa1x", b"", Problem.CORRUPT_RECORDS),
        (b"\x01\x91", b"\x01\x90", Problem.CORRUPT_RECORDS),
        (b"\x01\x91\xa1x", b"\x01\x90", Problem.CORRUPT_RECORDS),
        (b"\x03\x91\xa1x", b"\x01\x90", Problem.UNSUPPORTED_VERSION),
        (b"\x01\x91\xa1x", b"\x02\x90", Problem.UNSUPPORTED_VERSION),
    ],
)
def test_what_cannot_be_read_is_refused(key: bytes, value: bytes, problem: Problem) -> None:
    with pytest.raises(PenstockError) as refused:
        decode(key, value)
    assert refused.value.problem is problem
