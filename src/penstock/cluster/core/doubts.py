"""Partitions of which nobody has everything for sure: who has most of it shall lead, and the brokers must be asked.

It happens with flush.policy=os alone, when the last in-sync replicas all stopped uncleanly.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from penstock.cluster.core.draft import Draft
from penstock.cluster.core.effects import AskLogEnds
from penstock.cluster.core.election import Electorate, LogEnd, candidates_in_doubt, elected_by_log_end
from penstock.cluster.core.view import PartitionKey, View

RETRY_MS = 2_000


class Doubts:
    """Volatile: a controller that knows nothing of this asks again, and logs do not change while nobody leads."""

    def __init__(self) -> None:
        # In the order of the times.
        self._asked_ms: dict[PartitionKey, int] = {}
        self._ends: dict[PartitionKey, Mapping[int, tuple[int, LogEnd]]] = {}
        # Those who were there when all that could be asked was. None: states may have changed since.
        self._electorate: Electorate | None = None

    def hear(self, partition: PartitionKey, ends: Mapping[int, tuple[int, LogEnd]]) -> None:
        self._ends[partition] = ends

    def forget(self) -> None:
        self._asked_ms.clear()
        self._ends.clear()
        self._electorate = None

    def settle(self, draft: Draft) -> None:
        """Elects where all is known. An answer of another life of a broker does not count.

        What does not fit is left for the next draft.
        """
        for key in list(self._ends):
            if draft.is_full:
                return
            ends, node = self._ends.pop(key), draft.partition(key)
            if node is None or key not in draft.view.in_doubt:
                continue
            candidates = _candidates(draft, key)
            epochs = {candidate: draft.view.broker(candidate).broker_epoch for candidate in candidates}
            if candidates and all(c in ends and ends[c][0] == epochs[c] for c in candidates):
                logs = {candidate: ends[candidate][1] for candidate in candidates}
                settings = draft.view.settings(key.topic)
                draft.put_partition(key, elected_by_log_end(node.state, logs, draft.electorate, settings))

    def questions(self, draft: Draft, now_ms: int) -> list[AskLogEnds]:
        """An event that changes nothing costs what is due, however many wait for a broker that is not there."""
        in_doubt, questions = draft.view.in_doubt, []
        keys = self._due(in_doubt, now_ms)
        if draft.electorate != self._electorate:
            keys += [key for key in in_doubt if key not in self._asked_ms]
        for key in dict.fromkeys(keys):
            if candidates := _candidates(draft, key):
                self._asked_ms[key] = now_ms
                epochs = {candidate: draft.view.broker(candidate).broker_epoch for candidate in candidates}
                questions.append(AskLogEnds(key, epochs))
        self._electorate = draft.electorate if draft.is_empty else None
        return questions

    def next_deadline_ms(self, view: View) -> int | None:
        return next((asked + RETRY_MS for key, asked in self._asked_ms.items() if key in view.in_doubt), None)

    def _due(self, in_doubt: Container[PartitionKey], now_ms: int) -> list[PartitionKey]:
        """To be asked again; what is settled is forgotten with them."""
        over = []
        for key, asked_ms in self._asked_ms.items():
            if key in in_doubt and asked_ms + RETRY_MS > now_ms:
                break
            over.append(key)
        for key in over:
            del self._asked_ms[key]
        return [key for key in over if key in in_doubt]


def _candidates(draft: Draft, key: PartitionKey) -> tuple[int, ...]:
    """None before all of them are there."""
    node = draft.partition(key)
    candidates = () if node is None else candidates_in_doubt(node.state)
    live, stopping, _ = draft.electorate
    return candidates if all(c in live and c not in stopping for c in candidates) else ()
