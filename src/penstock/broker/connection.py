"""One client's connection: frames in, each to dispatch in its turn, nobody else disturbed."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from penstock.broker.api import Caller, CloseConnection
from penstock.broker.connections import Connections
from penstock.broker.dispatch import Dispatch
from penstock.broker.gate import Gate
from penstock.broker.receive_buffer import ReceiveBuffer
from penstock.broker.replies import Replies
from penstock.broker.sending import takes_files
from penstock.units import MIB
from penstock.wire.framing import Malformed

# After so much a connection lets everybody else have their turn: as long as it has more, an event loop reads on up to
# 32 times, and what was appended begins to be synced, and what was synced to be answered, when the turn ends.
GIVE_WAY_BYTES: Final = 4 * MIB


class Connection:
    """As `asyncio.BufferedProtocol` has it, but no subclass: `listener.py` says why."""

    def __init__(self, dispatch: Dispatch | Gate, connections: Connections) -> None:
        self._dispatch = dispatch
        self._connections = connections
        self._metrics = connections.metrics
        self._memory = connections.memory
        self._buffer = ReceiveBuffer(connections.memory, connections.check_prefix)
        self.replies = Replies(self, connections.reply_memory, connections.metrics)
        self._reading = True
        self._awaiting_memory = False
        self._throttled = False
        self._since_gave_way = 0
        self._giving_way = False
        self._closed = False
        # Set when bytes arrive, cleared by the registry: asking the clock for every request would cost more.
        self.active = True
        self.last_active_ms = 0

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.replies.attach(self._transport)
        self._caller = _caller(self._transport)
        if not self._connections.admit(self, self._caller.host):
            self._closed = True
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._metrics.bytes_in += nbytes
        self.active = True
        self._since_gave_way += nbytes
        if self._since_gave_way >= GIVE_WAY_BYTES:
            self._give_way()
        self.go_on()
        if self._caller.when_more is not None and self._buffer.pending_bytes:
            self._caller.when_more()

    def pause_writing(self) -> None:
        self.replies.pause()

    def resume_writing(self) -> None:
        self.replies.resume()
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._memory.forget(self._memory_free)
        self.replies.drop()
        self._buffer.close()
        self._connections.gone(self)
        if self._caller.when_gone is not None:
            self._caller.when_gone()

    # What the registry calls

    @property
    def mid_frame(self) -> bool:
        """The client has begun a request, and it is on the client to go on."""
        return self._reading and self._buffer.pending_bytes > 0 and not len(self.replies)

    def trim(self) -> None:
        self._buffer.trim()

    def hang_up(self, why: str) -> None:
        """It is the client's fault: say so."""
        if not self._closed:
            self._connections.blame(self._caller, why)
        self.close()

    def close(self) -> None:
        """Replies that are ready still leave, unless this is called again; the rest is dropped."""
        if self._closed:
            self._transport.abort()
        else:
            self._closed = True
            self.replies.end()
            self._transport.close()

    # The work

    def _blocked(self) -> bool:
        replies = self.replies
        return replies.blocked or replies.unread or self._throttled or self._closed

    def go_on(self) -> None:
        """Starts every request that is there, as far as nothing stands in the way."""
        try:
            while not self._blocked() and (frame := self._buffer.next_frame()) is not None:
                reply, most, throttle_ms = self._dispatch.start(frame, self._caller)
                if throttle_ms:
                    self._throttle(throttle_ms)
                self.replies.add(reply, most)
        except (Malformed, CloseConnection) as reason:
            self.hang_up(str(reason))
            return
        if not self._closed:
            self.replies.flush()
            self._adjust_reading()

    def _throttle(self, throttle_ms: int) -> None:
        self._throttled = True
        self._connections.call_later(throttle_ms, self._unthrottle)

    def _unthrottle(self) -> None:
        self._throttled = False
        self.go_on()

    def _give_way(self) -> None:
        self._since_gave_way = 0
        self._giving_way = True
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._giving_way = False
        # Not only to read on: an answer may have come meanwhile, and the request behind it fills the buffer.
        if not self._closed:
            self.go_on()

    # Reading goes on while there is room, so that a client that leaves is noticed whatever its requests wait for

    def _adjust_reading(self) -> None:
        if self._memory.tight:
            self._buffer.trim()
        readable = self._buffer.has_space() if self._blocked() else not self._awaiting_memory and self._make_room()
        if self._closed:
            return
        readable = readable and not self._giving_way
        if readable and not self._reading:
            self._reading = True
            self._transport.resume_reading()
        elif not readable and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _make_room(self) -> bool:
        try:
            if self._buffer.make_room():
                return True
        except Malformed as reason:
            self.hang_up(str(reason))
            return False
        self._awaiting_memory = True
        self._memory.when_free(self._memory_free, self._buffer.charged_bytes)
        return not self._awaiting_memory

    def _memory_free(self) -> None:
        self._awaiting_memory = False
        if not self._closed:
            self._buffer.make_room(in_turn=True)
            self.active = True
            self._adjust_reading()


def _caller(transport: asyncio.Transport) -> Caller:
    peer = transport.get_extra_info("peername") or ("unknown", 0)
    local = transport.get_extra_info("sockname") or ("unknown", 0)
    host, local_host, local_port = str(peer[0]), str(local[0]), int(local[1])
    return Caller(host, local_host, local_port, takes_files=takes_files(transport))
