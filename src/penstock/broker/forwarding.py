"""Requests that only the controller decides go there as they came; its answer goes to the client as it is.

Whether an API is one of them is decided when the table of handlers is made, so no other request pays for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from penstock.broker.api import Api, Buffers, Caller, CloseConnection, Handler, OwnCodec
from penstock.cluster.calls import FORWARD_TIMEOUT_MS, Calls
from penstock.cluster.core.messages import Forward
from penstock.errors import Problem
from penstock.later import Later, awaiting
from penstock.wire.framing import read_request_header
from penstock.wire.malformed import Malformed
from penstock.wire.versions import decode, encode

# A controller that died is replaced within this, so clients need not see it.
_PATIENCE_S = 30.0
_PAUSE_S = 0.05


class Forwarding:
    def __init__(self, is_controller: Callable[[], bool], calls: Calls) -> None:
        self.is_controller = is_controller
        self._calls = calls

    async def send(self, frame: bytes, host: str) -> bytes | None:
        """The controller's answer; None: it is this broker by now. Raises CloseConnection when there is none, and the

        client has to find out for itself what became of its request.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not self.is_controller():
                    reply = await self._calls.ask_controller(Forward(frame, host), FORWARD_TIMEOUT_MS).wait()
                    if not reply.problem:
                        return reply.frame
                    # Nobody has seen it, or nobody who decides: no harm in trying again.
                    if reply.problem not in (Problem.NOT_CONTROLLER.name, Problem.STORE_UNAVAILABLE.name):
                        raise CloseConnection(f"the controller did not answer: {reply.text}")
                    await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            raise CloseConnection("there is no controller at the moment") from None
        return None


class _Raw(NamedTuple):
    frame: bytes
    version: int
    body_start: int


class Forwarded:
    """A handler that runs on the controller alone."""

    def __init__(self, handler: Handler, forwarding: Forwarding) -> None:
        self._handler = handler
        self._codec = handler if isinstance(handler, OwnCodec) else None
        self._forwarding = forwarding

    @property
    def api(self) -> Api:
        return self._handler.api

    def read(self, frame: memoryview, body_start: int, version: int) -> Any:
        if self._forwarding.is_controller():
            return self._decoded(frame, body_start, version)
        return _Raw(bytes(frame), version, body_start)

    def start(self, request: Any, caller: Caller) -> Any | Later[Any]:
        if not isinstance(request, _Raw):
            return self._handler.start(request, caller)
        return awaiting(self._forward(request, caller))

    def pack(self, response: Any, version: int, correlation_id: int, throttle_ms: int) -> Buffers:
        if isinstance(response, bytes):
            return [response]
        if self._codec is not None:
            return self._codec.pack(response, version, correlation_id, throttle_ms)
        return [encode(response, self.api.key, version, correlation_id, throttle_ms)]

    async def _forward(self, request: _Raw, caller: Caller) -> Any:
        answer = await self._forwarding.send(request.frame, caller.host)
        if answer is not None:
            return answer
        decoded = self._decoded(memoryview(request.frame), request.body_start, request.version)
        result = self._handler.start(decoded, caller)
        return await result.wait() if isinstance(result, Later) else result

    def _decoded(self, frame: memoryview, body_start: int, version: int) -> Any:
        if self._codec is not None:
            return self._codec.read(frame, body_start, version)
        return decode(self.api.key, version, frame[body_start:])


def forwarded(handlers: Iterable[Handler], forwarding: Forwarding) -> list[Handler]:
    return [Forwarded(handler, forwarding) if handler.api.on_controller else handler for handler in handlers]


class ForwardedRequests:
    """What other brokers send on to this one, the controller, on behalf of their clients."""

    def __init__(
        self, handlers: Iterable[Handler], start: Callable[[memoryview, Caller], tuple[Any, int, int]]
    ) -> None:
        self._keys = {handler.api.key for handler in handlers if handler.api.on_controller}
        self._start = start

    def serve(self, frame: bytes, host: str) -> Later[bytes]:
        view = memoryview(bytearray(frame))
        if read_request_header(view).api_key not in self._keys:
            raise Malformed("forwarded request", "only what the controller decides is forwarded")
        answer, _, _ = self._start(view, Caller(host, "", 0, is_forwarded=True))
        if isinstance(answer, Later):
            return answer.map(b"".join)
        return Later.of(b"".join(answer))
