"""The requests that the command line packs itself, against another codec of the protocol."""

from __future__ import annotations

import datetime
import io
import struct

import pytest
from confluent_kafka import KafkaException
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TopicData
from kio.schema.describe_transactions.v0.response import TransactionState as DescribedState
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.list_transactions.v0.response import ListTransactionsResponse, TransactionState
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware, i16, i32, i32Timedelta

from penstock.cli.transaction_requests import Listed, pack_describe, pack_list, read_described, read_listed

# Length, API key, version, correlation id, client id, no tagged fields.
HEAD_BYTES = 4 + 11
ANSWER_HEAD = struct.pack(">iB", 1, 0)
NO_TIME = i32Timedelta.parse(datetime.timedelta(0))
names = st.text(max_size=200)


@given(st.lists(names, max_size=3))
def test_the_filters_are_what_another_codec_reads(states: list[str]) -> None:
    request, _ = entity_reader(ListTransactionsRequest)(pack_list(states), HEAD_BYTES)
    assert request == ListTransactionsRequest(state_filters=tuple(states))


@given(names)
def test_the_id_is_what_another_codec_reads(name: str) -> None:
    request, _ = entity_reader(DescribeTransactionsRequest)(pack_describe(name), HEAD_BYTES)
    assert request == DescribeTransactionsRequest(transactional_ids=(TransactionalId(name),))


@given(st.lists(st.tuples(names, st.integers(-1, 2**63 - 1), names), max_size=3), st.lists(names, max_size=2))
def test_what_another_codec_lists_is_read(rows: list[tuple[str, int, str]], unknown: list[str]) -> None:
    states = tuple(
        TransactionState(
            transactional_id=TransactionalId(name), producer_id=ProducerId(producer_id), transaction_state=state
        )
        for name, producer_id, state in rows
    )
    response = ListTransactionsResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(unknown),
        transaction_states=states,
    )
    assert list(read_listed(_packed(response))) == [Listed(*row) for row in rows]


def test_a_refusal_is_told() -> None:
    response = ListTransactionsResponse(
        throttle_time=NO_TIME, error_code=ErrorCode.coordinator_load_in_progress, transaction_states=()
    )
    with pytest.raises(KafkaException):
        list(read_listed(_packed(response)))


@given(st.dictionaries(names, st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3, unique=True), max_size=3))
def test_what_another_codec_describes_is_read(topics: dict[str, list[int]]) -> None:
    began = TZAware.parse(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
    row = DescribedState(
        error_code=ErrorCode.none,
        transactional_id=TransactionalId("id"),
        transaction_state="Ongoing",
        transaction_timeout=i32Timedelta.parse(datetime.timedelta(minutes=1)),
        transaction_start_time=began,
        producer_id=ProducerId(7),
        producer_epoch=i16(3),
        topics=tuple(
            TopicData(topic=TopicName(topic), partitions=tuple(i32(each) for each in partitions))
            for topic, partitions in topics.items()
        ),
    )
    found = read_described(_packed(DescribeTransactionsResponse(throttle_time=NO_TIME, transaction_states=(row,))))
    assert (found.error_code, found.transactional_id, found.state) == (0, "id", "Ongoing")
    assert (found.timeout_ms, found.producer_id, found.producer_epoch) == (60_000, 7, 3)
    assert found.started_ms == began.timestamp() * 1000
    assert found.partitions == tuple(
        sorted((topic, partition) for topic, partitions in topics.items() for partition in partitions)
    )


def _packed(response: ListTransactionsResponse | DescribeTransactionsResponse) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    return ANSWER_HEAD + buffer.getvalue()
