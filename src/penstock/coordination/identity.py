"""The cluster's id: made once, kept for ever; and whether a store is still that cluster's."""

from __future__ import annotations

import base64
import uuid
from typing import NamedTuple

from penstock.coordination.interface import Create, Store
from penstock.coordination.paths import (
    CLUSTER,
    CLUSTER_ID,
    CURRENT_FORMAT,
    FORMAT,
    NO_EPOCH,
    STORE_FORMAT,
    TOPICS,
    ClusterIdentity,
)
from penstock.errors import PenstockError, Problem

_ADVICE = (
    "nothing of it is taken over and no data are deleted. Put the cluster's own store back, from a copy if its disks "
    "are lost, or stop this broker"
)


class ForeignStore(PenstockError):
    """The store answers, but it is empty, another cluster's or another format's: what it lacks says nothing."""


class Identity(NamedTuple):
    cluster_id: str
    # Of its node.
    version: int


async def check_identity(store: Store, cluster_id: str) -> None:
    """Raises ForeignStore."""
    check_cluster_id((await identity_of(store)).cluster_id, cluster_id)


def check_cluster_id(found: str, expected: str) -> None:
    """Raises ForeignStore."""
    if found != expected:
        text = f"the coordination store has cluster {found}, this broker is of {expected}: {_ADVICE}"
        raise ForeignStore(Problem.STORAGE_FAILED, text)


def check_epoch(found_epoch: int, known_epoch: int) -> None:
    """Of controllers. Raises ForeignStore."""
    if not NO_EPOCH < found_epoch < known_epoch:
        return
    text = (
        f"the coordination store has gone back to an earlier state, with controller epoch {found_epoch} after "
        f"{known_epoch}: nothing of it is taken over and no data are deleted. If it was restored from a copy on "
        "purpose, restart the brokers: topics that it does not know are then set aside"
    )
    raise ForeignStore(Problem.STORAGE_FAILED, text)


async def identity_of(store: Store) -> Identity:
    """Of a store that a cluster uses. Raises ForeignStore for one that none does, or one in a format of its own."""
    nodes = await store.read_many([FORMAT, CLUSTER_ID, TOPICS])
    for path, node in zip((FORMAT, CLUSTER_ID, TOPICS), nodes, strict=True):
        if node is None:
            text = f"the coordination store has lost what it held, there is no {path} any more: {_ADVICE}"
            raise ForeignStore(Problem.STORAGE_FAILED, text)
    format_node, cluster_node, _ = nodes
    assert format_node is not None and cluster_node is not None
    if (found := STORE_FORMAT.decode(format_node.data, FORMAT).format) != CURRENT_FORMAT:
        text = f"the coordination store has format {found} now, this release knows {CURRENT_FORMAT}: {_ADVICE}"
        raise ForeignStore(Problem.STORAGE_FAILED, text)
    return Identity(CLUSTER.decode(cluster_node.data, CLUSTER_ID).cluster_id, cluster_node.version)


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
