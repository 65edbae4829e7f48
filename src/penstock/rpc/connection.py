"""The core on an event loop: one connection, from before it is dialled to its end. Nothing here decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar, cast

from penstock.clock import Clock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.alarm import Alarm
from penstock.rpc.core.call import Call
from penstock.rpc.core.connection import ConnectionCore
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.dial import Dial, is_own_end, lost
from penstock.wire.malformed import Malformed

T = TypeVar("T")
Slot = Later[Any]


class Connection(asyncio.BufferedProtocol):
    """For one use. Requests wait from the start, their deadlines running; all have an answer when it has ended.

    `when_ended` is called once, before the requests that were left get to know, so that they may be asked anew.
    """

    def __init__(self, clock: Clock, when_ended: Callable[[Connection, Unanswered], None]) -> None:
        self._clock = clock
        self._when_ended = when_ended
        self._loop = asyncio.get_running_loop()
        self._core: ConnectionCore[Slot] = ConnectionCore()
        self._address: Address | None = None
        self._dial_alarm = Alarm(clock, self._dial_now)
        self._dial: Dial | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False
        # Something will write what is there when the turn is over.
        self._flush_armed = False
        self._deadlines = Alarm(clock, self._time_passed)
        self._ended = False

    @property
    def was_up(self) -> bool:
        return self._transport is not None

    @property
    def has_answered(self) -> bool:
        return self._core.has_answered

    @property
    def is_waiting(self) -> bool:
        """Not dialled yet."""
        return self._dial is None and not self._ended

    def dial(self, address: Address, at_ms: int) -> None:
        """Called again while it is waiting, the last call counts."""
        assert self.is_waiting
        self._address = address
        self._dial_alarm.cancel()
        now_ms = self._clock.now_ms()
        if at_ms <= now_ms:
            self._dial_now(now_ms)
        else:
            self._dial_alarm.arm(at_ms)

    def ask(self, call: Call[T], timeout_ms: int) -> Later[T | Unanswered]:
        answer: Later[T | Unanswered] = Later()
        now_ms = self._clock.now_ms()
        if self._ended:
            answer.complete(Unanswered(How.STOPPED, "the connection has ended"))
        elif not self._core.add(call, answer, timeout_ms, now_ms):
            answer.complete(Unanswered(How.BUSY, f"{len(self._core)} requests wait for {self._address} already"))
        else:
            self._deadlines.arm(now_ms + timeout_ms)
            if not self._flush_armed:
                # One write for all requests of this turn of the loop.
                self._flush_armed = True
                self._loop.call_soon(self._flush)
        return answer

    def close(self, why: str) -> None:
        self._end(Unanswered(How.STOPPED, why))

    def _dial_now(self, _: int) -> None:
        assert self._address is not None
        self._dial = Dial(self._address, lambda: self, self._clock)
        self._dial.outcome.when_done(self._dialled)

    def _dialled(self, done: Later[asyncio.BaseTransport | Unanswered]) -> None:
        outcome = done.result()
        if isinstance(outcome, Unanswered):
            self._end(outcome)

    def _flush(self) -> None:
        self._flush_armed = False
        if self._transport is None or self._paused or self._ended:
            return
        frames = self._core.take_unsent()
        if len(frames) == 1:
            self._transport.write(frames[0])
        elif frames:
            self._transport.writelines(frames)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if self._ended:
            made.abort()
        elif is_own_end(made):
            made.abort()
            self._end(lost(ConnectionRefusedError(), str(self._address)))
        else:
            self._transport = made
            self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._core.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._core.received(nbytes, self._clock.now_ms())
        # What the answers lead to leaves at the end of this.
        self._flush_armed = True
        try:
            while (answer := self._next_answer()) is not None:
                slot, value = answer
                slot.complete(value)
            self._core.make_room()
        finally:
            self._flush()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def eof_received(self) -> None:
        self._end(lost(None, str(self._address)))

    def connection_lost(self, error: Exception | None) -> None:
        self._end(lost(error, str(self._address)))

    # Answers, deadlines, the end

    def _next_answer(self) -> tuple[Slot, Any] | None:
        try:
            return self._core.next_answer()
        except Malformed as error:
            self._end(Unanswered(How.MALFORMED, f"{self._address} sent what is no answer: {error}"))
            return None

    def _time_passed(self, now_ms: int) -> None:
        unsent, sent = self._core.take_expired(now_ms)
        silent = Unanswered(How.TIMED_OUT, f"{self._address} did not answer in time")
        if self._core.is_stalled(now_ms):
            self._end(silent, unsent, sent)
            return
        if (next_ms := self._core.next_deadline_ms()) is not None:
            self._deadlines.arm(next_ms)
        _settle(unsent, sent, silent)

    def _end(self, why: Unanswered, unsent: Sequence[Slot] = (), sent: Sequence[Slot] = ()) -> None:
        """`unsent` and `sent` are those whose time has passed just now."""
        if self._ended:
            return
        self._ended = True
        self._deadlines.cancel()
        self._dial_alarm.cancel()
        if self._dial is not None:
            self._dial.cancel()
        if self._transport is not None:
            self._transport.abort()
        left_unsent, left_sent = self._core.close()
        try:
            self._when_ended(self, why)
        finally:
            _settle([*unsent, *left_unsent], [*sent, *left_sent], why)


def _settle(unsent: Sequence[Slot], sent: Sequence[Slot], why: Unanswered) -> None:
    """In order; one whose callback raises does not keep the others from knowing."""
    why_sent = replace(why, sent=True)
    with ExitStack() as stack:
        for slot in reversed(unsent):
            stack.callback(slot.complete, why)
        for slot in reversed(sent):
            stack.callback(slot.complete, why_sent)
