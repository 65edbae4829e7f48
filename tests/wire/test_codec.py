"""Reading and writing agree with kio, for every API and version that Penstock serves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.messages import SERVED_VERSIONS, kio_bytes, messages

from penstock.wire.bounds import ElementBudget
from penstock.wire.reading import reader_for
from penstock.wire.schemas import request_class, response_class
from penstock.wire.writing import writer_for

_EACH = settings(max_examples=4)


@pytest.mark.parametrize(("api_key", "version"), SERVED_VERSIONS)
@_EACH
@given(data=st.data())
def test_requests_are_read_as_kio_writes_them(api_key: int, version: int, data: st.DataObject) -> None:
    kind = request_class(api_key, version)
    request = data.draw(messages(kind))
    raw = kio_bytes(request)
    assert reader_for(kind, kind)(raw, 0, ElementBudget()) == (request, len(raw))


@pytest.mark.parametrize(("api_key", "version"), SERVED_VERSIONS)
@_EACH
@given(data=st.data())
def test_responses_are_written_as_kio_writes_them(api_key: int, version: int, data: st.DataObject) -> None:
    kind = response_class(api_key, version)
    response = data.draw(messages(kind))
    out = bytearray()
    writer_for(kind, kind)(out, response)
    assert out == kio_bytes(response)
