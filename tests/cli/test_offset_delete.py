"""The request that the command line packs itself, against another codec of the protocol."""

from __future__ import annotations

import datetime
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta

from penstock.cli.offset_delete import error_codes, pack_request

HEAD_BYTES = 4 + 10
partitions = st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**31 - 1), max_size=3), max_size=3)


@given(st.text(max_size=10), partitions)
def test_the_request_is_what_another_codec_reads(group: str, chosen: dict[str, list[int]]) -> None:
    frame = pack_request(group, chosen)
    assert struct.unpack_from(">ihhih", frame) == (len(frame) - 4, 47, 0, 1, -1)
    request, size = entity_reader(OffsetDeleteRequest)(frame[HEAD_BYTES:], 0)
    assert size == len(frame) - HEAD_BYTES
    assert request.group_id == group
    assert {topic.name: [row.partition_index for row in topic.partitions] for topic in request.topics} == chosen


def response(codes: list[list[ErrorCode]]) -> bytes:
    body = io.BytesIO()
    entity_writer(OffsetDeleteResponse)(
        body,
        OffsetDeleteResponse(
            error_code=ErrorCode.none,
            throttle_time=i32Timedelta.parse(datetime.timedelta()),
            topics=tuple(
                OffsetDeleteResponseTopic(
                    name=TopicName("topic"),
                    partitions=tuple(
                        OffsetDeleteResponsePartition(partition_index=i32(number), error_code=code)
                        for number, code in enumerate(row)
                    ),
                )
                for row in codes
            ),
        ),
    )
    return struct.pack(">i", 1) + body.getvalue()


@given(st.lists(st.lists(st.sampled_from(list(ErrorCode)), max_size=3), max_size=3))
def test_every_error_code_of_an_answer_is_seen(codes: list[list[ErrorCode]]) -> None:
    assert list(error_codes(response(codes))) == [0, *(int(code) for row in codes for code in row)]


def test_an_answer_that_is_cut_short_is_an_error() -> None:
    with pytest.raises(struct.error):
        list(error_codes(response([[ErrorCode.none]])[:-1]))
