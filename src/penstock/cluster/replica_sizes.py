"""How much every broker holds and has room for, as the brokers say when they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse

from penstock.cluster.core.image import Image
from penstock.later import gather
from penstock.rpc.core.call import call_of
from penstock.rpc.core.unanswered import Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.units import SECOND_MS

# Whoever does not answer in time is planned for without: an operator is waiting.
TIMEOUT_MS = 5 * SECOND_MS


class Held(NamedTuple):
    """By one broker."""

    sizes: Mapping[tuple[str, int], int]
    free_bytes: int | None


class ReplicaSizes:
    def __init__(self, image: Image, peers: Peers) -> None:
        self._image = image
        self._peers = peers
        # Of this broker; set when it has replicas.
        self.own: Callable[[], Held] = lambda: Held({}, None)

    async def ask(self) -> dict[int, Held]:
        """By broker, of all that have answered."""
        others = [node_id for node_id in sorted(self._image.live_epochs) if node_id != self._image.node_id]
        calls = [call_of(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse) for _ in others]
        # Not with what is urgent: an answer may be large.
        asked = [
            self._peers.call(node_id, Purpose.FORWARDING, call, TIMEOUT_MS)
            for node_id, call in zip(others, calls, strict=True)
        ]
        answers = dict(zip(others, await gather(asked).wait(), strict=True))
        found = {node_id: _held(answer) for node_id, answer in answers.items() if not isinstance(answer, Unanswered)}
        found[self._image.node_id] = self.own()
        return found


def _held(answer: DescribeLogDirsResponse) -> Held:
    sizes = {
        (str(topic.name), int(row.partition_index)): int(row.partition_size)
        for result in answer.results
        for topic in result.topics
        for row in topic.partitions
    }
    # A disk whose space is not known says -1.
    free = [int(result.usable_bytes) for result in answer.results if result.usable_bytes >= 0]
    return Held(sizes, sum(free) if free else None)
