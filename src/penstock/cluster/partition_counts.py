"""How many partitions topics have by the store, whatever this broker's metadata have of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.cluster.core.topic_rules import is_name
from penstock.cluster.metadata import Metadata
from penstock.coordination.identity import check_cluster_id, check_epoch, identity_of
from penstock.coordination.interface import Check, Store
from penstock.coordination.paths import (
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    CONTROLLER_EPOCH_STATE,
    NO_EPOCH,
    TOPIC,
    topic_path,
)
from penstock.errors import PenstockError, Refused


class PartitionCounts:
    """For whoever has to tell what is gone from what this broker has not heard of yet, or could not open."""

    def __init__(self, store: Store, metadata: Metadata) -> None:
        self._store = store
        self._metadata = metadata

    async def of(self, names: Collection[str]) -> Mapping[str, int] | Refused:
        """Of all these, 0 where there is no such topic, or it is being removed. Any names will do."""
        known_epoch = self._metadata.place[0]
        try:
            return await self._read(names, known_epoch)
        except PenstockError as error:
            return Refused.by(error)

    async def _read(self, names: Collection[str], known_epoch: int) -> Mapping[str, int]:
        """Raises PenstockError, also for garbage: nothing is concluded from that."""
        await self._store.sync()
        identity = await identity_of(self._store)
        check_cluster_id(identity.cluster_id, self._metadata.cluster_id)
        counts = await self._counts(names, known_epoch)
        if all(counts.values()):
            return counts
        # What is missing may only be so at the server that answers, if it is cut off from the others and does not know
        # it yet.
        await self._store.commit([Check(CLUSTER_ID, identity.version)])
        return await self._counts(names, known_epoch)

    async def _counts(self, names: Collection[str], known_epoch: int) -> Mapping[str, int]:
        possible = [name for name in names if is_name(name)]
        epoch, *topics = await self._store.read_many([CONTROLLER_EPOCH, *map(topic_path, possible)])
        found = NO_EPOCH if epoch is None else CONTROLLER_EPOCH_STATE.decode(epoch.data, CONTROLLER_EPOCH).epoch
        check_epoch(found, known_epoch)
        counts = dict.fromkeys(names, 0)
        for name, node in zip(possible, topics, strict=True):
            if node is not None:
                counts[name] = TOPIC.decode(node.data, topic_path(name)).partition_count
        return counts
