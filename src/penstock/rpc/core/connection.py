"""One connection to a Kafka server without its socket: requests in, bytes out; bytes in, answers out.

A server answers in the order of the requests, so what is on its way is a queue, and an answer that is not the next
one's is malformed. A shell moves the bytes, tells the time and holds the slots that wait for answers.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Generic, TypeVar

from penstock.rpc.core.answer_buffer import AnswerBuffer
from penstock.rpc.core.call import Call
from penstock.units import MIB
from penstock.wire.bounds import ElementBudget, skip_tagged_fields
from penstock.wire.malformed import Malformed

Slot = TypeVar("Slot")

# Waiting to be sent and sent: enough for a burst of forwarded requests, little enough to be given up at once.
MAX_REQUESTS = 1024
# Eight of the largest requests that a server takes.
MAX_REQUEST_BYTES = 32 * MIB

_ID = struct.Struct(">i")
_LAST_ID = 2**31 - 1


class _Waiting(Generic[Slot]):
    __slots__ = ("call", "correlation_id", "deadline_ms", "slot", "timeout_ms")

    def __init__(self, call: Call[Any], slot: Slot, correlation_id: int, timeout_ms: int, now_ms: int) -> None:
        self.call = call
        # None: its deadline has passed, and the slot was given back.
        self.slot: Slot | None = slot
        self.correlation_id = correlation_id
        self.timeout_ms = timeout_ms
        self.deadline_ms = now_ms + timeout_ms


class ConnectionCore(Generic[Slot]):
    def __init__(self) -> None:
        self._unsent: deque[_Waiting[Slot]] = deque()
        self._sent: deque[_Waiting[Slot]] = deque()
        self._request_bytes = 0
        self._next_id = 0
        self._buffer = AnswerBuffer()
        # The last answer that was handed over, while its bytes are there.
        self._shown: tuple[Call[Any], Any, memoryview] | None = None
        self._received_ms = 0
        self._last_answer_ms = 0
        self._closed = False
        # Whether the peer has shown that it understands us.
        self.has_answered = False

    def __len__(self) -> int:
        """Requests that wait for an answer, or for being sent."""
        return len(self._unsent) + len(self._sent)

    # Requests

    def add(self, call: Call[Any], slot: Slot, timeout_ms: int, now_ms: int) -> bool:
        """False: too much waits already, and this was not taken. Not after `close`."""
        size = len(call.frame)
        if len(self) >= MAX_REQUESTS or (len(self) and self._request_bytes + size > MAX_REQUEST_BYTES):
            return False
        call.number(self._next_id)
        self._unsent.append(_Waiting(call, slot, self._next_id, timeout_ms, now_ms))
        self._next_id = 0 if self._next_id == _LAST_ID else self._next_id + 1
        self._request_bytes += size
        return True

    def take_unsent(self) -> list[bytearray]:
        """What is to be written now, in this order; from here on the peer may have seen it."""
        unsent, self._unsent = self._unsent, deque()
        self._sent += unsent
        return [waiting.call.frame for waiting in unsent]

    # Answers

    def space(self) -> memoryview:
        """Where the next bytes are received; never empty."""
        return self._buffer.space()

    def received(self, size: int, now_ms: int) -> None:
        self._buffer.received(size)
        self._received_ms = now_ms

    def next_answer(self) -> tuple[Slot, Any] | None:
        """Whose it is, and what it is: valid until the next call of this or of `make_room`. None: no more for now.

        Raises Malformed for bytes that are no answer to what was asked: all that is left to do is `close`.
        """
        self._release()
        while self._sent:
            waiting = self._sent[0]
            call, slot = waiting.call, waiting.slot
            frame = self._buffer.next_frame(call.answer_limit_bytes)
            if frame is None:
                return None
            body_start = _body_start(waiting, frame)
            value = None if slot is None else call.read(frame, body_start)
            self._sent.popleft()
            self._request_bytes -= len(call.frame)
            self._last_answer_ms = self._received_ms
            self.has_answered = True
            if slot is not None:
                self._shown = call, value, frame
                return slot, value
        if self._buffer.pending_bytes and not self._closed:
            raise Malformed("answer", "nothing was asked")
        return None

    def make_room(self) -> None:
        """When there is no next answer, before more is received."""
        self._release()
        self._buffer.make_room()

    def _release(self) -> None:
        if self._shown is not None:
            call, value, frame = self._shown
            self._shown = None
            call.release(value)
            frame.release()

    # Time

    def next_deadline_ms(self) -> int | None:
        deadlines = [waiting.deadline_ms for waiting in (*self._unsent, *self._sent) if waiting.slot is not None]
        if self._sent:
            deadlines.append(self._stalled_at_ms())
        return min(deadlines, default=None)

    def take_expired(self, now_ms: int) -> tuple[list[Slot], list[Slot]]:
        """Those whose deadline has passed: never sent, and sent. What was never sent never will be."""
        unsent: list[Slot] = []
        kept: deque[_Waiting[Slot]] = deque()
        for waiting in self._unsent:
            if waiting.deadline_ms <= now_ms and waiting.slot is not None:
                unsent.append(waiting.slot)
                self._request_bytes -= len(waiting.call.frame)
            else:
                kept.append(waiting)
        self._unsent = kept
        sent: list[Slot] = []
        for waiting in self._sent:
            if waiting.deadline_ms <= now_ms and waiting.slot is not None:
                sent.append(waiting.slot)
                waiting.slot = None
        return unsent, sent

    def is_stalled(self, now_ms: int) -> bool:
        """The request that the peer should be answering has had all of its time: the connection is of no more use.

        One that waits behind another may pass its deadline without that: the peer works on what came before it.
        """
        return bool(self._sent) and now_ms >= self._stalled_at_ms()

    def _stalled_at_ms(self) -> int:
        head = self._sent[0]
        return max(head.deadline_ms, self._last_answer_ms + head.timeout_ms)

    # The end

    def close(self) -> tuple[list[Slot], list[Slot]]:
        """All that still wait: never sent, and sent. There are no answers any more."""
        self._closed = True
        unsent = [waiting.slot for waiting in self._unsent if waiting.slot is not None]
        sent = [waiting.slot for waiting in self._sent if waiting.slot is not None]
        self._unsent.clear()
        self._sent.clear()
        self._request_bytes = 0
        return unsent, sent


def _body_start(waiting: _Waiting[Any], frame: memoryview) -> int:
    (correlation_id,) = _ID.unpack_from(frame)
    if correlation_id != waiting.correlation_id:
        raise Malformed("answer", f"to request {correlation_id}, {waiting.correlation_id} is the next")
    if waiting.call.tagged_header:
        return skip_tagged_fields(frame, _ID.size, ElementBudget(), "answer's header")
    return _ID.size
