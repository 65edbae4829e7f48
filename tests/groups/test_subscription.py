"""What can be read of a consumer's subscription, also when the bytes are anybody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.groups.members import subscription

from penstock.groups.core.subscription import subscribed_topics


@given(st.sets(st.text(alphabet="abc.-_0", min_size=1, max_size=8), max_size=5))
def test_topics_are_read_whatever_follows(topics: set[str]) -> None:
    metadata = subscription(*topics)
    assert subscribed_topics(metadata) == frozenset(topics)
    assert subscribed_topics(b"\x00\x03" + metadata[2:] + b"more of version 3") == frozenset(topics)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00\x7f\xff\xff\xff",
        b"\x00\x00\xff\xff\xff\xff",
        b"\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x05ab",
        b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe",
    ],
)
def test_bytes_that_are_no_subscription_are_told_apart(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


@given(st.binary(max_size=64))
def test_no_bytes_do_harm(metadata: bytes) -> None:
    subscribed_topics(metadata)
