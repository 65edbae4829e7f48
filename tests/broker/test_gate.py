"""Requests that come before the broker is ready."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.types import GroupId
from kio.static.primitive import i32
from tests.bad_input.raw import packed

from penstock.broker.api import NO_THROTTLE, Api, Buffers, Caller, CloseConnection
from penstock.broker.dispatch import Dispatch
from penstock.broker.error_codes import NONE
from penstock.broker.gate import MOST_BYTES, Gate
from penstock.broker.pressure import Pressure
from penstock.later import Later
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.usage import Usage


class Heartbeats:
    """Who was heard."""

    api = Api(key=12, versions=(0, 4))

    def __init__(self) -> None:
        self.members: list[str] = []

    def start(self, request: Any, caller: Caller) -> HeartbeatResponse:
        self.members.append(request.member_id)
        return HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=NONE)


def gate_to(handler: Heartbeats) -> Gate:
    return Gate(Dispatch([handler], BrokerMetrics(Metrics()), Usage(10), Pressure(lambda: 0.0)))


def client() -> Caller:
    return Caller("client", "here", 9092)


def heartbeat(member: str) -> bytes:
    request = HeartbeatRequest(
        group_id=GroupId("billing"), generation_id=i32(1), member_id=member, group_instance_id=None
    )
    return bytes(packed(request, correlation_id=7))


def sent(gate: Gate, caller: Caller, member: str) -> Later[Buffers]:
    reply, most, _ = gate.start(memoryview(heartbeat(member)), caller)
    assert isinstance(reply, Later) and most == 0
    return reply


def test_who_waits_is_served_in_turn_and_who_has_gone_is_not() -> None:
    handler = Heartbeats()
    gate, gone = gate_to(handler), client()
    replies = [sent(gate, client(), "first"), sent(gate, gone, "gone"), sent(gate, client(), "last")]
    assert gone.when_gone is not None
    gone.when_gone()
    assert not handler.members
    gate.open()
    assert handler.members == ["first", "last"]
    assert [reply.done for reply in replies] == [True, False, True]


def test_so_much_waits_and_there_is_room_again_when_somebody_leaves() -> None:
    gate, callers = gate_to(Heartbeats()), [client() for _ in range(4)]
    half = heartbeat("m").ljust(MOST_BYTES // 2, b"\0")
    for caller in callers[:2]:
        gate.start(memoryview(half), caller)
    with pytest.raises(CloseConnection, match="try again"):
        gate.start(memoryview(half), callers[2])
    assert callers[0].when_gone is not None
    callers[0].when_gone()
    gate.start(memoryview(half), callers[3])
