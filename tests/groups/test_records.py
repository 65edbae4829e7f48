"""The bytes of __consumer_offsets."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, Problem
from penstock.groups.core.records import (
    ClassicGroupValue,
    CommittedOffset,
    GroupMetadata,
    OffsetCommit,
    PendingOffset,
    PendingOffsetCommit,
    Record,
    StoredMember,
    decode,
    encode,
)

names = st.text(max_size=20)
numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1)
counts = st.integers(min_value=-1, max_value=2**31 - 1)
members = st.builds(
    StoredMember,
    member_id=names,
    group_instance_id=st.none() | names,
    client_id=names,
    client_host=names,
    session_timeout_ms=counts,
    rebalance_timeout_ms=counts,
    protocols=st.lists(st.tuples(names, st.binary(max_size=20)), max_size=3).map(tuple),
    assignment=st.binary(max_size=20),
)
groups = st.builds(
    ClassicGroupValue,
    generation=counts,
    protocol_type=st.none() | names,
    protocol_name=st.none() | names,
    leader=st.none() | names,
    synced=st.booleans(),
    state_since_ms=numbers,
    members=st.lists(members, max_size=3).map(tuple),
)
offsets = st.builds(CommittedOffset, numbers, counts, names, numbers, numbers, st.binary(max_size=16))
pending = st.builds(PendingOffset, counts, numbers, counts, names, st.binary(max_size=16))
records = (
    st.builds(GroupMetadata, names, st.none() | groups)
    | st.builds(OffsetCommit, names, names, counts, st.none() | offsets)
    | st.builds(PendingOffsetCommit, numbers, names, names, counts, st.none() | pending)
)


@given(records)
def test_every_record_survives_its_bytes(record: Record) -> None:
    key, value = encode(record)
    assert decode(key, value) == record
    assert (value is None) == (record.value is None)


@given(records, records)
def test_keys_are_equal_exactly_when_records_are_about_the_same_thing(one: Record, other: Record) -> None:
    same = type(one) is type(other) and msgspec.structs.astuple(one)[:-1] == msgspec.structs.astuple(other)[:-1]
    assert (encode(one)[0] == encode(other)[0]) == same


@given(records, st.binary(max_size=60), st.binary(max_size=60))
def test_damaged_bytes_are_refused_and_nothing_else(record: Record, key: bytes, value: bytes) -> None:
    real_key, real_value = encode(record)
    for damaged_key, damaged_value in ((key, real_value), (real_key, value), (key, value), (real_key[:-1], value)):
        try:
            decode(damaged_key, damaged_value)
        except PenstockError as error:
            assert error.problem in (Problem.CORRUPT_RECORDS, Problem.UNSUPPORTED_VERSION)


def test_what_a_newer_version_wrote_is_refused_with_what_to_do() -> None:
    key, value = encode(OffsetCommit("group", "topic", 0, CommittedOffset(1, 2, "", 3)))
    assert value is not None
    for newer_key, newer_value in ((b"\xfa" + key[1:], value), (key, b"\xfa" + value[1:])):
        with pytest.raises(PenstockError, match="upgrade this node") as refused:
            decode(newer_key, newer_value)
        assert refused.value.problem is Problem.UNSUPPORTED_VERSION


def test_fields_appended_later_are_skipped() -> None:
    record = OffsetCommit("group", "topic", 0, CommittedOffset(1, 2, "", 3))
    key, value = encode(record)
    assert value is not None
    fields = [*msgspec.msgpack.decode(value[1:]), "a later version's field"]
    assert decode(key, value[:1] + msgspec.msgpack.encode(fields)) == record


def test_an_offset_is_small_on_disk() -> None:
    key, value = encode(OffsetCommit("group-0123456789", "topic-0123456789", 11, CommittedOffset(10**9, 3, "", 10**12)))
    assert value is not None
    assert len(key) + len(value) < 70
