"""One client's connection: frames in, replies out in request order, nobody else disturbed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import cast

from penstock.broker.api import Buffers, Caller, CloseConnection
from penstock.broker.connections import Connections
from penstock.broker.dispatch import Dispatch, Outcome
from penstock.broker.receive_buffer import ReceiveBuffer
from penstock.later import Later
from penstock.units import KIB
from penstock.wire.framing import Malformed

logger = logging.getLogger(__name__)

# A client that sends without reading is not read from while so many of its replies wait. Kafka's clients keep at most
# five requests in flight; the rest is for clients that pipeline more.
MAX_WAITING_REPLIES = 64
# Replies beyond this wait in the transport before the next request is looked at.
WRITE_BUFFER_BYTES = 256 * KIB


class _Slot:
    """A reply's place in the order; `buffers` is None until it is ready."""

    __slots__ = ("buffers", "serial")

    def __init__(self, serial: bool) -> None:
        self.buffers: Buffers | None = None
        self.serial = serial


class Connection(asyncio.BufferedProtocol):
    def __init__(self, dispatch: Dispatch, connections: Connections) -> None:
        self._dispatch = dispatch
        self._connections = connections
        self._buffer = ReceiveBuffer(connections.memory, connections.check_prefix)
        self._slots: deque[_Slot] = deque()
        self._out: list[bytes | bytearray | memoryview] = []
        self._flush_armed = False
        self._reading = True
        self._write_paused = False
        self._awaiting_memory = False
        self._serial_pending = False
        self._throttled = False
        self._closed = False
        self.last_active_ms = 0

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._caller = _caller(self._transport)
        if not self._connections.admit(self, self._caller.host):
            self._closed = True
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._connections.metrics.bytes_in += nbytes
        self.last_active_ms = self._connections.now_ms()
        self._process()

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._process()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._connections.memory.forget(self._memory_free)
        self._slots.clear()
        self._out.clear()
        self._buffer.close()
        self._connections.gone(self)

    # What the registry calls

    @property
    def mid_frame(self) -> bool:
        return self._buffer.pending_bytes > 0 and not self._slots

    def trim(self) -> None:
        self._buffer.trim()

    def hang_up(self, why: str) -> None:
        """Replies that are ready still leave; the rest is dropped."""
        if not self._closed:
            self._closed = True
            self._connections.refused(self._caller, why)
            self._flush()
            self._transport.close()

    # The work

    def _blocked(self) -> bool:
        return (
            self._closed
            or self._write_paused
            or self._serial_pending
            or self._throttled
            or len(self._slots) >= MAX_WAITING_REPLIES
        )

    def _process(self) -> None:
        try:
            while not self._blocked() and (frame := self._buffer.next_frame()) is not None:
                self._took(self._dispatch.start(frame, self._caller))
        except (Malformed, CloseConnection) as reason:
            self.hang_up(str(reason))
            return
        if self._out:
            self._flush()
        self._adjust_reading()

    def _took(self, outcome: Outcome) -> None:
        if outcome.throttle_ms:
            self._throttle(outcome.throttle_ms)
        reply = outcome.reply
        if not isinstance(reply, Later):
            self._ready(reply)
        elif reply.done:
            self._ready(reply.result())
        else:
            slot = _Slot(serial=not outcome.pipelined)
            self._slots.append(slot)
            self._serial_pending = slot.serial
            reply.when_done(lambda done: self._complete(slot, done))

    def _ready(self, buffers: Buffers) -> None:
        if self._slots:
            slot = _Slot(serial=False)
            slot.buffers = buffers
            self._slots.append(slot)
        else:
            self._out.extend(buffers)

    def _complete(self, slot: _Slot, reply: Later[Buffers]) -> None:
        if self._closed:
            return
        try:
            slot.buffers = reply.result()
        except CloseConnection as reason:
            self.hang_up(str(reason))
            return
        while self._slots and (buffers := self._slots[0].buffers) is not None:
            if self._slots.popleft().serial:
                self._serial_pending = False
            self._out.extend(buffers)
        if not self._flush_armed:
            # One write for all replies of this turn of the loop.
            self._flush_armed = True
            asyncio.get_running_loop().call_soon(self._flush_and_process)

    def _flush_and_process(self) -> None:
        self._flush_armed = False
        if not self._closed:
            self._flush()
            self._process()

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            self._connections.metrics.bytes_out += sum(map(len, out))
            if len(out) == 1:
                self._transport.write(out[0])
            else:
                self._transport.writelines(out)

    def _throttle(self, throttle_ms: int) -> None:
        self._throttled = True
        self._connections.call_later(throttle_ms, self._unthrottle)

    def _unthrottle(self) -> None:
        self._throttled = False
        if not self._closed:
            self._process()

    # Reading is paused while anything blocks the next frame

    def _adjust_reading(self) -> None:
        if self._closed:
            return
        readable = not self._blocked() and not self._awaiting_memory and self._make_room()
        if readable and not self._reading:
            self._reading = True
            self._transport.resume_reading()
        elif not readable and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _make_room(self) -> bool:
        try:
            if self._buffer.make_room():
                if self._connections.memory.contended:
                    self._buffer.trim()
                return True
        except Malformed as reason:
            self.hang_up(str(reason))
            return False
        self._awaiting_memory = True
        self._connections.memory.when_free(self._memory_free)
        return False

    def _memory_free(self) -> None:
        self._awaiting_memory = False
        if not self._closed:
            self._buffer.make_room(in_turn=True)
            self._adjust_reading()


def _caller(transport: asyncio.Transport) -> Caller:
    peer = transport.get_extra_info("peername") or ("unknown", 0)
    local = transport.get_extra_info("sockname") or ("unknown", 0)
    return Caller(host=str(peer[0]), local_host=str(local[0]), local_port=int(local[1]))
