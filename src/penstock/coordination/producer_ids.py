"""Producer ids: each is given once, whatever crashes."""

from __future__ import annotations

import asyncio

from penstock.coordination.identity import check_identity
from penstock.coordination.interface import Change, Create, Replace, Store
from penstock.coordination.paths import PRODUCER_ID, PRODUCER_IDS, ProducerIdState
from penstock.errors import PenstockError, Problem, Refused

# As large as Kafka's: one durable write per so many producers; a crash wastes the rest, of 2**63.
BLOCK_SIZE = 1000


class ProducerIds:
    """Hands out ids from a block that the store has recorded as taken before the first of them is used."""

    def __init__(self, store: Store, cluster_id: str) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._block = iter(range(0))
        self._refilling = asyncio.Lock()

    async def allocate(self) -> int | Refused:
        """For whoever serves clients: what the store raises as a value."""
        try:
            return await self.next_id()
        except PenstockError as error:
            return Refused.by(error)

    async def next_id(self) -> int:
        """Raises PenstockError when the store cannot record that a block is taken."""
        producer_id = next(self._block, None)
        if producer_id is not None:
            return producer_id
        async with self._refilling:
            # Others may have come for an id while this one waited, so look again, until there is one.
            while (producer_id := next(self._block, None)) is None:
                self._block = iter(await self.take_block())
        return producer_id

    async def take_block(self) -> range:
        """A block that nobody else has or ever gets."""
        while True:
            # From another cluster's, or one that begins anew, come ids that are in use here.
            await check_identity(self._store, self._cluster_id)
            node = await self._store.read(PRODUCER_IDS)
            start = PRODUCER_ID.decode(node.data, PRODUCER_IDS).next_producer_id if node is not None else 0
            data = PRODUCER_ID.encode(ProducerIdState(start + BLOCK_SIZE))
            change: Change = (
                Replace(PRODUCER_IDS, data, node.version) if node is not None else Create(PRODUCER_IDS, data)
            )
            try:
                await self._store.commit([change])
            except PenstockError as error:
                if error.problem is not Problem.STORE_CONFLICT:
                    raise
            else:
                return range(start, start + BLOCK_SIZE)
