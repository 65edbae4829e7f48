"""What a handler may do wrong, and what becomes of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.types import GroupId
from kio.static.primitive import i32
from tests.bad_input.raw import packed

from penstock.broker.api import Api, Buffers, Caller, CloseConnection
from penstock.broker.dispatch import Dispatch
from penstock.broker.pressure import Pressure
from penstock.later import Later
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.usage import Usage
from penstock.wire.framing import Malformed

UNKNOWN_SERVER_ERROR = (-1).to_bytes(2, "big", signed=True)


class Raising:
    """A heartbeat that goes wrong, at once or later."""

    api = Api(key=12, versions=(0, 4))

    def __init__(self, error: Exception, later: bool) -> None:
        self._error = error
        self._later = later

    def start(self, request: Any, caller: Caller) -> Any | Later[Any]:
        if not self._later:
            raise self._error
        answer: Later[Any] = Later()
        answer.fail(self._error)
        return answer


class Misreading(Raising):
    """Its own codec has a bug."""

    def read(self, frame: memoryview, body_start: int, version: int) -> Any:
        raise self._error

    def pack(self, response: Any, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        return ()


def frame() -> memoryview:
    request = HeartbeatRequest(group_id=GroupId("billing"), generation_id=i32(1), member_id="m", group_instance_id=None)
    return memoryview(packed(request, correlation_id=7))


def started(handler: Raising, metrics: BrokerMetrics) -> Buffers:
    dispatch = Dispatch([handler], metrics, Usage(10), Pressure(lambda: 0.0))
    reply, _, _ = dispatch.start(frame(), Caller("client", "here", 9092))
    return reply.result() if isinstance(reply, Later) else reply


@pytest.mark.parametrize("handler", [Raising, Misreading])
@pytest.mark.parametrize("later", [False, True])
def test_a_bug_is_logged_counted_and_answered(
    handler: type[Raising], later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = BrokerMetrics(Metrics())
    with caplog.at_level(logging.ERROR):
        answer = b"".join(map(bytes, started(handler(ZeroDivisionError("a bug"), later), metrics)))
    assert UNKNOWN_SERVER_ERROR in answer
    assert "a bug" in caplog.text
    assert (metrics.unexpected_errors, metrics.requests_in_flight) == (1, 0)


@pytest.mark.parametrize("error", [CloseConnection("enough"), Malformed("request", "nonsense")])
def test_what_only_hanging_up_answers_reaches_the_connection(error: Exception) -> None:
    metrics = BrokerMetrics(Metrics())
    with pytest.raises(type(error)):
        started(Raising(error, later=False), metrics)
    assert (metrics.unexpected_errors, metrics.requests_in_flight) == (0, 0)
