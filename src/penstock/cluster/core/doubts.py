"""Partitions of which nobody has everything for sure: who has most of it shall lead, and the brokers must be asked.

It happens with flush.policy=os alone, when the last in-sync replicas all stopped uncleanly.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster.core.draft import Draft
from penstock.cluster.core.effects import AskLogEnds
from penstock.cluster.core.election import LogEnd, candidates_in_doubt, elected_by_log_end
from penstock.cluster.core.view import PartitionKey, View

RETRY_MS = 2_000


class Doubts:
    """Volatile: a controller that knows nothing of this asks again, and logs do not change while nobody leads."""

    def __init__(self) -> None:
        self._asked_ms: dict[PartitionKey, int] = {}
        self._ends: dict[PartitionKey, Mapping[int, tuple[int, LogEnd]]] = {}

    def hear(self, partition: PartitionKey, ends: Mapping[int, tuple[int, LogEnd]]) -> None:
        self._ends[partition] = ends

    def forget(self) -> None:
        self._asked_ms.clear()
        self._ends.clear()

    def settle(self, draft: Draft) -> None:
        """Elects where all is known. An answer of another life of a broker does not count."""
        for key in list(draft.view.in_doubt):
            ends, node = self._ends.pop(key, None), draft.partition(key)
            if ends is None or node is None:
                continue
            candidates = _candidates(draft, key)
            epochs = {candidate: draft.view.broker(candidate).broker_epoch for candidate in candidates}
            if candidates and all(c in ends and ends[c][0] == epochs[c] for c in candidates):
                logs = {candidate: ends[candidate][1] for candidate in candidates}
                settings = draft.view.settings(key.topic)
                draft.put_partition(key, elected_by_log_end(node.state, logs, draft.electorate, settings))
        for key in self._asked_ms.keys() - draft.view.in_doubt.keys():
            del self._asked_ms[key]
            self._ends.pop(key, None)

    def questions(self, draft: Draft, now_ms: int) -> list[AskLogEnds]:
        questions = []
        for key in draft.view.in_doubt:
            if self._asked_ms.get(key, now_ms - RETRY_MS) + RETRY_MS > now_ms:
                continue
            if candidates := _candidates(draft, key):
                self._asked_ms[key] = now_ms
                epochs = {candidate: draft.view.broker(candidate).broker_epoch for candidate in candidates}
                questions.append(AskLogEnds(key, epochs))
        return questions

    def next_deadline_ms(self, view: View) -> int | None:
        return min((asked + RETRY_MS for key, asked in self._asked_ms.items() if key in view.in_doubt), default=None)


def _candidates(draft: Draft, key: PartitionKey) -> tuple[int, ...]:
    """None before all of them are there."""
    node = draft.partition(key)
    candidates = () if node is None else candidates_in_doubt(node.state)
    live, stopping, _ = draft.electorate
    return candidates if all(c in live and c not in stopping for c in candidates) else ()
