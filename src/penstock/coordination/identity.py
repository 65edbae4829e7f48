"""The cluster's id: made once, kept for ever."""

from __future__ import annotations

import base64
import uuid

from penstock.coordination.interface import Create, Store
from penstock.coordination.paths import CLUSTER, CLUSTER_ID, ClusterIdentity
from penstock.errors import PenstockError, Problem


async def cluster_id_of(store: Store) -> str:
    while (node := await store.read(CLUSTER_ID)) is None:
        # 22 characters, as Kafka's are.
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        try:
            await store.commit([Create(CLUSTER_ID, CLUSTER.encode(ClusterIdentity(fresh)))])
        except PenstockError as error:
            if error.problem is not Problem.STORE_CONFLICT:
                raise
    return CLUSTER.decode(node.data, CLUSTER_ID).cluster_id
