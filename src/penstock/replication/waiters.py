"""Who waits for something to be committed, and until when; and who for another leader."""

from __future__ import annotations

from collections import deque

from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.each import each

Committed = None | Refused
NEVER_MS = 2**63
_TOO_LATE = Refused(Problem.REQUEST_TIMED_OUT, "it is written, but was not committed in time")
HANDING_OVER = Refused(Problem.NOT_LEADER, "this broker is about to stop: another one leads the partition in a moment")


class HandOver:
    """From one leader, which is about to stop, to the next."""

    __slots__ = ("under_way",)

    def __init__(self) -> None:
        # Not None: nothing is taken from producers. Who is sent away before it is done would come back, because nobody
        # else leads yet.
        self.under_way: Later[Committed] | None = None

    def begin(self) -> None:
        self.under_way = self.under_way or Later()

    def when_over(self) -> Later[Committed]:
        """With what whoever met HANDING_OVER is refused in the end."""
        return self.under_way or Later.of(HANDING_OVER)

    def end(self, refused: Refused = HANDING_OVER) -> None:
        """With what all are refused that wanted to append meanwhile."""
        if self.under_way is not None:
            under_way, self.under_way = self.under_way, None
            under_way.complete(refused)


class CommitWaiters:
    """In the order in which they came, which is that of their offsets but for duplicates, which may wait longer."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, int, Later[Committed]]] = deque()

    def add(self, next_offset: int, deadline_ms: int) -> Later[Committed]:
        later: Later[Committed] = Later()
        self.waiting.append((next_offset, deadline_ms, later))
        return later

    def reached(self, offset: int, answer: Committed) -> None:
        """All that wait for no more than `offset` are answered."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[2].complete(answer)

    def expire(self, now_ms: int) -> None:
        """Swept now and then: a timer per produce would cost more than the produce."""
        late = deque(later for _, deadline_ms, later in self.waiting if deadline_ms <= now_ms)
        if late:
            self.waiting = deque(waiter for waiter in self.waiting if waiter[1] > now_ms)
            each(late, lambda later: later.complete(_TOO_LATE))

    def refuse(self, refused: Refused) -> None:
        waiting, self.waiting = self.waiting, deque()
        each(deque(later for _, _, later in waiting), lambda later: later.complete(refused))
