"""The replies of one connection: they leave in the order of their requests, and together where they can."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol, cast

from penstock.broker.api import Buffers, CloseConnection, Part
from penstock.broker.reply_memory import ReplyMemory
from penstock.broker.sending import send_parts
from penstock.disk.interface import Buffer
from penstock.later import Later
from penstock.telemetry.broker import BrokerMetrics
from penstock.units import KIB
from penstock.wire.stored_batches import StoredBatches

# A client that sends without reading is not read from while so many of its replies wait. Kafka's own keep at most five
# requests in flight; the rest is for clients that pipeline more.
MOST_WAITING: Final = 64
# If each is a row. A producer of librdkafka has a hundred megabytes in flight: with fewer here, syncs would cover less.
MOST_ROWS_WAITING: Final = 256
# What the client leaves unread beyond this keeps its next request waiting.
WRITE_BUFFER_BYTES: Final = 64 * KIB


class Replying(Protocol):
    """The connection, as its replies need it."""

    def go_on(self) -> None:
        """Replies have left: look at what waits for that."""

    def hang_up(self, why: str) -> None: ...


class _Gone:
    """A connection that is no more, for what was still on its way to it."""

    def go_on(self) -> None: ...

    def hang_up(self, why: str) -> None: ...


_GONE: Final = _Gone()


class Replies:
    """`add` once per request, in order; `flush` when the turn is over. Replies that come later flush themselves."""

    __slots__ = (
        "_connection",
        "_flush_armed",
        "_has_stored",
        "_held_bytes",
        "_loop",
        "_memory",
        "_metrics",
        "_most",
        "_out",
        "_out_bytes",
        "_ready_bytes",
        "_seen_unread_bytes",
        "_transport",
        "_waiting",
        "blocked",
        "unread",
    )

    def __init__(self, connection: Replying, memory: ReplyMemory, metrics: BrokerMetrics) -> None:
        self._connection: Replying = connection
        self._memory = memory
        self._metrics = metrics
        # From the first reply on that is not there yet.
        self._waiting: deque[Later[Buffers]] = deque()
        self._out: list[Part] = []
        self._out_bytes = 0
        # Some of it is still in a file.
        self._has_stored = False
        self._flush_armed = False
        # How many may wait, and what there is of answers that needed no time but stand behind one that does, since
        # nothing waited.
        self._most = MOST_ROWS_WAITING
        self._ready_bytes = 0
        self._held_bytes = 0
        self._seen_unread_bytes = 0
        # No further request may start: the last reply must not be overtaken, or too many wait.
        self.blocked = False
        # The client has left more unread than the transport should keep.
        self.unread = False

    def __len__(self) -> int:
        """How many are not there yet, or stand behind one that is not."""
        return len(self._waiting)

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def add(self, reply: Buffers | Later[Buffers], most: int) -> None:
        """`most`: how many may wait together with this one. 0: no request behind it starts before the reply is there.

        Raises CloseConnection.
        """
        if not isinstance(reply, Later):
            if not self._waiting:
                self._put(reply)
                return
            self._ready_bytes += sum(map(len, reply))
            reply = Later.of(reply)
        elif reply.done and not self._waiting:
            self._put(reply.result())
            return
        self._waiting.append(reply)
        if most < self._most:
            self._most = most
        self.blocked = self._is_full()
        reply.when_done(self._complete)

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._most or self._ready_bytes >= WRITE_BUFFER_BYTES

    def _complete(self, _: Later[Buffers]) -> None:
        waiting = self._waiting
        if not waiting or not waiting[0].done:
            return
        try:
            while waiting and waiting[0].done:
                self._put(waiting.popleft().result())
        except CloseConnection as reason:
            self._connection.hang_up(str(reason))
            return
        if not waiting:
            self._most = MOST_ROWS_WAITING
            self._ready_bytes = 0
        self.blocked = self._is_full()
        if not self._flush_armed:
            # One write for all replies of this turn of the loop.
            self._flush_armed = True
            self._loop.call_soon(self._flush_and_go_on)

    def _flush_and_go_on(self) -> None:
        self._flush_armed = False
        self.flush()
        self._connection.go_on()

    def _put(self, buffers: Buffers) -> None:
        self._out.extend(buffers)
        for buffer in buffers:
            self._out_bytes += len(buffer)
            if isinstance(buffer, StoredBatches):
                self._has_stored = True
        if self._out_bytes >= WRITE_BUFFER_BYTES:
            # At once: only the transport knows whether the client reads, and many requests can be in one turn.
            self.flush()

    def flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            size, self._out_bytes = self._out_bytes, 0
            self._metrics.bytes_out += size
            if self._has_stored:
                self._has_stored = False
                send_parts(self._transport, out)
            else:
                self._write(cast("list[Buffer]", out))
            if self.unread:
                # All of it, however much has been sent: it stays in memory until the last byte has left.
                self._held_bytes += size
                self._memory.hold(size)

    def _write(self, out: list[Buffer]) -> None:
        if len(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(out)

    # While the client does not read

    def pause(self) -> None:
        """The transport says so, inside a write."""
        self.unread = True

    def resume(self) -> None:
        self.unread = False
        self._memory.release(self._held_bytes)
        self._held_bytes = self._seen_unread_bytes = 0

    def is_being_read(self) -> bool:
        """Whether the client has read any of what it left unread, since this was last asked."""
        unread_bytes = self._transport.get_write_buffer_size()
        seen, self._seen_unread_bytes = self._seen_unread_bytes, unread_bytes
        return unread_bytes != seen

    def end(self) -> None:
        """What is ready leaves; what comes now goes nowhere."""
        self._waiting.clear()
        self.flush()

    def drop(self) -> None:
        """The connection has gone: let go of it, or the two keep each other and all that they hold until the collector

        comes by, which is after thousands of connections."""
        self._connection = _GONE
        self._waiting.clear()
        self._out.clear()
        self._out_bytes = 0
        self.resume()
