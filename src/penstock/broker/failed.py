"""The answer to a request that failed unexpectedly, where its response has a place for an error of its own."""

from __future__ import annotations

import dataclasses
import datetime
import typing
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.broker.api import NO_THROTTLE as _NO_TIME
from penstock.wire.schemas import VERSIONS
from penstock.wire.versions import response_shape


@cache
def failed_response(api_key: int) -> Any | None:
    """None: such a response has errors in its rows only, and nobody knows which rows; hang up instead."""
    if api_key not in VERSIONS:
        return None
    shape = response_shape(api_key)
    if not dataclasses.is_dataclass(shape):
        return None
    fields = dataclasses.fields(shape)
    if not any(field.name == "error_code" for field in fields):
        return None
    kinds = typing.get_type_hints(shape)
    values = {field.name: _empty(kinds[field.name]) for field in fields if field.default is dataclasses.MISSING}
    values["error_code"] = ErrorCode.unknown_server_error
    return shape(**values)


def _empty(kind: Any) -> Any:
    if type(None) in typing.get_args(kind):
        return None
    origin = typing.get_origin(kind) or kind
    if issubclass(origin, datetime.timedelta):
        return _NO_TIME
    for plain in (tuple, str, bytes, bool, int):
        if issubclass(origin, plain):
            return plain()
    raise TypeError(f"no empty value for {kind}")
