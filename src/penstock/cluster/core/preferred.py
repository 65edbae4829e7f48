"""Leaderships go back to the preferred leaders, so that a restart does not leave a broker without work for good."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.cluster.core.draft import Draft
from penstock.cluster.core.election import Choice, settled
from penstock.cluster.core.view import PartitionKey, View

# As many as in Kafka: leaders that change all at once would have every client look for them at once.
MAX_ELECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class PreferredLeaderOptions:
    enabled: bool = True
    check_interval_ms: int = 5_000
    # A broker that comes and goes shall not take leaderships with it each time.
    after_ms: int = 10_000


class PreferredLeaders:
    """Volatile: after a change of the controller it waits a little longer than it had to."""

    def __init__(self, options: PreferredLeaderOptions) -> None:
        self._options = options
        self._next_check_ms = 0
        self._live_since_ms: dict[int, int] = {}
        self._wanted: dict[PartitionKey, None] = {}

    def look(self, view: View, now_ms: int) -> None:
        since = self._live_since_ms
        if since.keys() != view.live:
            self._live_since_ms = since = {node_id: since.get(node_id, now_ms) for node_id in sorted(view.live)}
        if not self._options.enabled or not view.not_preferred or now_ms < self._next_check_ms:
            return
        self._next_check_ms = now_ms + self._options.check_interval_ms
        ripe = {
            node_id
            for node_id, since_ms in since.items()
            if now_ms - since_ms >= self._options.after_ms
            and (state := view.broker(node_id).state) is not None
            and not state.draining
        }
        self._wanted.clear()
        for key in view.not_preferred:
            node = view.partition(key)
            if node is not None and node.state.replicas[0] in ripe and node.state.replicas[0] in node.state.isr:
                self._wanted[key] = None
                if len(self._wanted) >= MAX_ELECTIONS:
                    return

    def settle(self, draft: Draft) -> None:
        """What does not fit is left for the next draft; what fails, for the next look."""
        for key in list(self._wanted):
            if draft.is_full:
                return
            del self._wanted[key]
            if (node := draft.partition(key)) is not None:
                settings = draft.view.settings(key.topic)
                draft.put_partition(key, settled(node.state, draft.electorate, settings, choice=Choice.PREFERRED))

    def next_deadline_ms(self, view: View) -> int | None:
        return self._next_check_ms if self._options.enabled and view.not_preferred else None
