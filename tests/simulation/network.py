"""Time, processes, and messages between them that are late, lost, doubled, or cut off in one direction."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

Call = Callable[..., None]
# Takes the answer; None: none came in time, whatever has become of the request.
OnAnswer = Callable[[Any], None]
# A handler gets the request and what to answer it with.
Handler = Callable[[Any, OnAnswer], None]


class Process:
    """Something that can die and come back, or stand still. What was sent to an earlier life never arrives."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.life = 0
        self.is_up = True
        self.is_paused = False
        # What happened to it while it stood still, in order.
        self.inbox: list[tuple[Call, tuple[Any, ...]]] = []

    def die(self) -> None:
        self.life += 1
        self.is_up = self.is_paused = False
        self.inbox.clear()


class Network:
    """Also the clock. All delays come from one seed, so a run can be repeated."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 0
        self.cuts: set[tuple[int, int]] = set()
        # Chances per message.
        self.loss = 0.0
        self.doubling = 0.0
        self.long_delay = 0.0
        self.delay_ms = 8
        self.events = 0
        self._heap: list[tuple[int, int, Process, int, Call, tuple[Any, ...]]] = []
        self._sequence = 0

    def heal(self) -> None:
        self.cuts.clear()
        self.loss = self.doubling = self.long_delay = 0.0
        self.delay_ms = 4

    def after(self, delay_ms: int, process: Process, call: Call, *arguments: Any) -> None:
        """In this life of the process; if it stands still then, when it goes on."""
        self._push(delay_ms, process, process.life, call, arguments)

    def _push(self, delay_ms: int, process: Process, life: int, call: Call, arguments: tuple[Any, ...]) -> None:
        self._sequence += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._sequence, process, life, call, arguments))

    def send(self, source: Process, target: Process, call: Call, *arguments: Any, held_ms: int = 0) -> None:
        random = self.random.random
        if (self.loss and random() < self.loss) or (source.name, target.name) in self.cuts:
            return
        delay = 1 + held_ms + int(random() * self.delay_ms)
        if self.long_delay and random() < self.long_delay:
            delay += int(random() * 2500)
        self._push(delay, target, target.life, self._arrive, (source, target, call, arguments))

    def _arrive(self, source: Process, target: Process, call: Call, arguments: tuple[Any, ...]) -> None:
        if (source.name, target.name) not in self.cuts:
            call(*arguments)

    def ask(
        self,
        source: Process,
        target: Process,
        handler: Handler,
        request: Any,
        on_answer: OnAnswer,
        timeout_ms: int,
        *,
        once: bool = False,
        held_ms: int = 0,
    ) -> None:
        """`on_answer` is called once, in this life of the source: what comes after the time-out is not heard.

        `once`: it arrives at most once, because nobody sends it again. `held_ms`: how much longer it takes.
        """
        life, is_over = source.life, False

        def settle(answer: Any) -> None:
            nonlocal is_over
            if not is_over and source.life == life:
                is_over = True
                on_answer(answer)

        def reply(answer: Any) -> None:
            self.send(target, source, settle, answer)

        self.send(source, target, handler, request, reply, held_ms=held_ms)
        if self.doubling and not once and self.random.random() < self.doubling:
            self.send(source, target, handler, request, reply)
        self.after(timeout_ms, source, settle, None)

    def resume(self, process: Process) -> None:
        """All that came while it stood still happens now, in the order in which it came."""
        process.is_paused = False
        inbox, process.inbox = process.inbox, []
        for call, arguments in inbox:
            self.after(0, process, call, *arguments)

    def run_until(self, until_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            self.now_ms, _, process, life, call, arguments = heappop(heap)
            if process.life != life or not process.is_up:
                continue
            if process.is_paused:
                process.inbox.append((call, arguments))
                continue
            self.events += 1
            call(*arguments)
        self.now_ms = until_ms
