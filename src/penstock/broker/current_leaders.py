"""Where a partition's leader is, for a client that came to the wrong broker (KIP-951): it need not ask for metadata."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.cluster.core.image import Image
from penstock.coordination.paths import NO_LEADER
from penstock.wire.leaders import LeaderIdAndEpoch, NodeEndpoint

_WRONG_BROKER = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


class CurrentLeaders:
    def __init__(self, image: Image) -> None:
        self._image = image

    def beside(
        self, code: ErrorCode, topic: str, topic_id: UUID | None, partition_index: int
    ) -> LeaderIdAndEpoch | None:
        """What to say beside an error; nothing beside most of them."""
        if code not in _WRONG_BROKER:
            return None
        found = self._image.topic(topic) if topic_id is None else self._image.topic_by_id(topic_id)
        if found is None or not 0 <= partition_index < len(found.partitions):
            return None
        image = found.partitions[partition_index]
        if image.leader in (NO_LEADER, self._image.node_id):
            # Nobody leads, or the client was earlier than the metadata here.
            return None
        return LeaderIdAndEpoch(image.leader, image.leader_epoch)

    def endpoints(self, leaders: Iterable[LeaderIdAndEpoch | None]) -> list[NodeEndpoint]:
        """Of all that were named in one answer."""
        ids = dict.fromkeys(leader.leader_id for leader in leaders if leader is not None)
        known = [broker for node_id in ids if (broker := self._image.brokers.get(node_id)) is not None]
        return [NodeEndpoint(broker.node_id, broker.host, broker.port, broker.rack) for broker in known if broker.host]
