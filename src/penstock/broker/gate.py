"""A broker listens before it serves: brokers that look for it find it alive, and clients' requests wait until it is
ready.
"""

from __future__ import annotations

from penstock.broker.api import Buffers, Caller, CloseConnection
from penstock.broker.dispatch import Dispatch, Outcome
from penstock.later import Later
from penstock.wire.framing import Malformed, read_request_header
from penstock.wire.schemas import PRIVATE


class Gate:
    """Before `open` only other brokers are served. Connections that are made afterwards go past it."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._opened: Later[None] = Later()

    @property
    def way_in(self) -> Dispatch | Gate:
        return self._dispatch if self._opened.done else self

    def open(self) -> None:
        self._opened.complete(None)

    def start(self, frame: memoryview, caller: Caller) -> Outcome:
        if self._opened.done or read_request_header(frame).api_key == PRIVATE:
            return self._dispatch.start(frame, caller)
        copy = bytearray(frame)
        reply: Later[Buffers] = Later()

        def serve(_: Later[None]) -> None:
            try:
                answer = self._dispatch.start(memoryview(copy), caller)[0]
            except (Malformed, CloseConnection) as reason:
                reply.fail(CloseConnection(str(reason)))
                return
            if isinstance(answer, Later):
                answer.when_done(reply.settle_like)
            else:
                reply.complete(answer)

        self._opened.when_done(serve)
        return reply, False, 0
