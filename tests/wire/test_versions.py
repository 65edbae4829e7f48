"""Older requests reach handlers in one shape, and their responses leave in the client's version."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.primitive import i32Timedelta
from tests.wire.messages import SERVED, SERVED_VERSIONS, kio_bytes, messages, sent_as

from penstock.wire.lifts import LIFTS
from penstock.wire.schemas import (
    VERSIONS,
    first_flexible_version,
    request_class,
    response_class,
    response_header_version,
)
from penstock.wire.shapes import is_flexible, shape_of
from penstock.wire.versions import decode, request_shape, response_shape

_EACH = settings(max_examples=3)
# These are built differently in some versions, or have a shape of our own; test_lifts.py has them one by one.
_LIFTED_REQUESTS = {key for key, lift in LIFTS.items() if lift.lift_pivot or lift.request or lift.adjust_request}
_LIFTED_RESPONSES = {key for key, lift in LIFTS.items() if lift.lower_pivot or lift.response or lift.adjust_response}


def says_the_same(target: Any, source: Any) -> bool:
    """Every field of `target` is as in `source`, or the default where the source has no such field."""
    if isinstance(target, tuple) and isinstance(source, tuple):
        return len(target) == len(source) and all(map(says_the_same, target, source))
    if isinstance(target, type) or not is_dataclass(target):
        return bool(target == source) or (source is None and not target)
    if source is None:
        return False
    names = {field.name for field in fields(source)}
    return all(
        says_the_same(getattr(target, field.name), getattr(source, field.name))
        if field.name in names
        else getattr(target, field.name) == field.default
        for field in shape_of(target.__class__)
    )


@pytest.mark.parametrize(("api_key", "version"), [pair for pair in SERVED_VERSIONS if pair[0] not in _LIFTED_REQUESTS])
@_EACH
@given(data=st.data())
def test_requests_are_lifted_by_field_name(api_key: int, version: int, data: st.DataObject) -> None:
    sent = data.draw(messages(request_class(api_key, version)))
    request = decode(api_key, version, memoryview(kio_bytes(sent)))
    assert type(request) is request_shape(api_key) is request_class(api_key, SERVED[api_key][1])
    assert says_the_same(request, sent)


@pytest.mark.parametrize(("api_key", "version"), [pair for pair in SERVED_VERSIONS if pair[0] not in _LIFTED_RESPONSES])
@_EACH
@given(data=st.data(), throttle_ms=st.integers(0, 2**31 - 1))
def test_responses_are_lowered_by_field_name(api_key: int, version: int, data: st.DataObject, throttle_ms: int) -> None:
    response = data.draw(messages(response_shape(api_key)))
    older = sent_as(response, api_key, version, throttle_ms)
    if "throttle_time" in {field.name for field in fields(older)}:
        assert older.throttle_time == timedelta(milliseconds=throttle_ms)
        older = replaced_throttle(older, response.throttle_time)
    assert says_the_same(older, response)


def replaced_throttle(response: Any, throttle_time: i32Timedelta) -> Any:
    return type(response)(
        **{field.name: getattr(response, field.name) for field in fields(response)} | {"throttle_time": throttle_time}
    )


def test_an_api_versions_answer_has_the_oldest_header_whatever_its_version() -> None:
    assert [response_header_version(18, version) for version in range(5)] == [0] * 5


def test_a_version_is_flexible_where_kio_has_it_so() -> None:
    for api_key, (oldest, newest) in VERSIONS.items():
        for version in range(oldest, newest + 1):
            flexible = is_flexible(request_class(api_key, version))
            assert flexible == (version >= first_flexible_version(api_key)), (api_key, version)


def test_response_headers_are_those_of_kio() -> None:
    for api_key, version in SERVED_VERSIONS:
        header = response_class(api_key, version).__header_schema__  # type: ignore[attr-defined]
        assert response_header_version(api_key, version) == header.__version__, (api_key, version)
