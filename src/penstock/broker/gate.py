"""A broker listens before it serves: brokers that look for it find it alive, and clients' requests wait until it is
ready.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.api import Buffers, Caller, CloseConnection
from penstock.broker.dispatch import Dispatch, Outcome
from penstock.later import Later
from penstock.units import MIB
from penstock.wire.framing import Malformed, read_request_header
from penstock.wire.schemas import PRIVATE

# Of all requests that wait; they are copies, which the memory for requests knows nothing of.
MOST_BYTES = 64 * MIB


class Gate:
    """Before `open` only other brokers are served. Connections that are made afterwards go past it."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._is_open = False
        # One of each connection, by its number. Whoever has gone has asked again meanwhile, perhaps many times.
        self._waiting: dict[int, Callable[[], None]] = {}
        self._waiting_bytes = 0

    @property
    def way_in(self) -> Dispatch | Gate:
        return self._dispatch if self._is_open else self

    def open(self) -> None:
        self._is_open = True
        waiting, self._waiting = self._waiting, {}
        for serve in waiting.values():
            serve()

    def start(self, frame: memoryview, caller: Caller) -> Outcome:
        if self._is_open or read_request_header(frame).api_key == PRIVATE:
            return self._dispatch.start(frame, caller)
        if self._waiting_bytes + len(frame) > MOST_BYTES:
            raise CloseConnection("this broker starts, and too much waits for that already: try again")
        copy = bytearray(frame)
        self._waiting_bytes += len(copy)
        reply: Later[Buffers] = Later()

        def serve() -> None:
            caller.when_gone = None
            try:
                answer = self._dispatch.start(memoryview(copy), caller)[0]
            except (Malformed, CloseConnection) as reason:
                reply.fail(CloseConnection(str(reason)))
                return
            if isinstance(answer, Later):
                answer.when_done(reply.settle_like)
            else:
                reply.complete(answer)

        def forget() -> None:
            if self._waiting.pop(caller.number, None) is not None:
                self._waiting_bytes -= len(copy)

        # No request of this connection starts before this one is answered.
        self._waiting[caller.number] = serve
        caller.when_gone = forget
        return reply, 0, 0
