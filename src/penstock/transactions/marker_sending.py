"""Markers on their way: to other brokers over a connection of their own, to this one without."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.cluster.calls import Calls
from penstock.cluster.core.image import Image
from penstock.cluster.core.messages import MarkerRow, Reply, ReplyRow, WriteMarkers, refusal_of
from penstock.coordination.paths import NO_EPOCH
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.rpc.peers import Purpose
from penstock.transactions.markers import Marker, Outcome
from penstock.units import SECOND_MS

# Longer than a leader waits until they are committed.
TIMEOUT_MS = 15 * SECOND_MS


class MarkerSending:
    def __init__(self, image: Image, calls: Calls) -> None:
        self._image = image
        self._calls = calls
        # On this broker; set by whoever has the partitions, before anything is sent.
        self.write_here: Callable[[WriteMarkers], Later[Reply]] = _nobody

    def send(self, node_id: int, markers: Sequence[Marker]) -> Later[Sequence[Outcome] | Refused]:
        rows = tuple(self._row(marker) for marker in markers)
        message = WriteMarkers(self._image.node_id, rows)
        if node_id == self._image.node_id:
            reply = self.write_here(message)
        else:
            reply = self._calls.ask(node_id, Purpose.MARKERS, message, TIMEOUT_MS)
        return reply.map(lambda answer: _outcomes(rows, answer))

    def _row(self, marker: Marker) -> MarkerRow:
        return MarkerRow(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.commit,
            marker.transaction_version,
            tuple(
                (row.topic, tuple((index, self._leader_epoch(row.topic, index)) for index in row.partitions))
                for row in marker.topics
            ),
        )

    def _leader_epoch(self, topic: str, index: int) -> int:
        found = self._image.topic(topic)
        return NO_EPOCH if found is None or index >= len(found.partitions) else found.partitions[index].leader_epoch


def _nobody(_: WriteMarkers) -> Later[Reply]:
    return Later.of(Reply.refused(Refused(Problem.NOT_LEADER, "this broker has no partitions yet")))


def _outcomes(markers: Sequence[MarkerRow], reply: Reply) -> Sequence[Outcome] | Refused:
    if (refused := reply.refusal) is not None:
        return refused
    answers = iter(reply.rows)
    # A row that is missing is one of which nothing is known.
    return [
        {(topic, index): _problem(row) for (topic, index, _), row in zip(marker.places(), answers, strict=False)}
        for marker in markers
    ]


def _problem(row: ReplyRow) -> Problem | None:
    refused = refusal_of(row.problem, row.text)
    return None if refused is None else refused.problem
