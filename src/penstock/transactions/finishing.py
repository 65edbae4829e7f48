"""Those who want to begin a transaction while the last one of its id is still being finished."""

from __future__ import annotations

from penstock.clock import Clock
from penstock.later import Later

# Markers take a few milliseconds, unless somebody is away. A client that is told to come again waits for 20 or more.
LONGEST_MS = 128


class Finishing:
    """On the event loop's thread. It knows nobody but those who wait, so nothing is left of ids that nobody uses."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, list[Later[None]]] = {}

    def wait(self, transactional_id: str) -> Later[None]:
        """Done when `finished` says so or it takes too long: how the transaction stands then is for others to see."""
        news: Later[None] = Later()
        self._waiting.setdefault(transactional_id, []).append(news)

        def give_up() -> None:
            waiting = self._waiting[transactional_id]
            waiting.remove(news)
            if not waiting:
                del self._waiting[transactional_id]
            news.complete(None)

        timer = self._clock.call_at(self._clock.now_ms() + LONGEST_MS, give_up)
        news.when_done(lambda _: timer.cancel())
        return news

    def finished(self, transactional_id: str) -> None:
        waiting = self._waiting.pop(transactional_id, ())
        for news in waiting:
            news.complete(None)
