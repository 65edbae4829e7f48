"""From a client's bytes to the request that a handler sees, and from its response to the bytes of the client's version.

A handler knows one shape: the newest version's, or our own where that one lacks what older clients say
(`penstock.wire.lifts`). Everything is compiled once per API and version, on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from penstock.wire.appending import finish_response, start_response
from penstock.wire.bounds import ElementBudget
from penstock.wire.lifts import LIFTS
from penstock.wire.lifts.lift import Lift
from penstock.wire.reading import reader_for
from penstock.wire.schemas import newest_version, request_class, response_class, response_header_version
from penstock.wire.writing import response_writer_for

Decode = Callable[[bytes], Any]
Encode = Callable[[bytearray, Any, int], None]


def decode(api_key: int, version: int, body: bytes | memoryview) -> Any:
    """The request in the shape that handlers know. Raises `Malformed`; there must be a schema of this version."""
    return _decoder(api_key, version)(bytes(body))


def encode(response: Any, api_key: int, version: int, correlation_id: int, throttle_ms: int) -> bytearray:
    """The whole answer with length prefix and header."""
    out = start_response(response_header_version(api_key, version), correlation_id)
    _encoder(api_key, version)(out, response, throttle_ms)
    finish_response(out, len(out))
    return out


def request_shape(api_key: int) -> type:
    """The class of the requests that `decode` returns."""
    return _lift(api_key).request or request_class(api_key, newest_version(api_key))


def response_shape(api_key: int) -> type:
    """The class of the responses that `encode` takes."""
    return _lift(api_key).response or response_class(api_key, newest_version(api_key))


def _lift(api_key: int) -> Lift:
    return LIFTS.get(api_key) or Lift(api_key=api_key)


@cache
def _decoder(api_key: int, version: int) -> Decode:
    lift = _lift(api_key)
    from_pivot = lift.lift_pivot if version <= lift.pivot else None
    shape = request_class(api_key, lift.pivot) if from_pivot is not None else request_shape(api_key)
    read = reader_for(request_class(api_key, version), shape)
    adjust = lift.adjust_request

    def decode_exceptional(body: bytes) -> Any:
        request = read(body, 0, ElementBudget())[0]
        if from_pivot is not None:
            request = from_pivot(request)
        return request if adjust is None else adjust(request, version)

    if from_pivot is None and adjust is None:
        return lambda body: read(body, 0, ElementBudget())[0]
    return decode_exceptional


@cache
def _encoder(api_key: int, version: int) -> Encode:
    lift = _lift(api_key)
    to_pivot = lift.lower_pivot if version <= lift.pivot else None
    shape = response_class(api_key, lift.pivot) if to_pivot is not None else response_shape(api_key)
    write = response_writer_for(response_class(api_key, version), shape)
    adjust = lift.adjust_response

    def encode_exceptional(out: bytearray, response: Any, throttle_ms: int) -> None:
        if adjust is not None:
            response = adjust(response, version)
        write(out, response if to_pivot is None else to_pivot(response), throttle_ms)

    return write if to_pivot is None and adjust is None else encode_exceptional
