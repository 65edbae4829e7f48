"""What is made sure of before a node uses a store: it is ours, in a format we know, of the cluster of our data."""

from __future__ import annotations

import posixpath
from typing import NamedTuple
from uuid import UUID

from penstock.coordination.data_directory import DataDirectory
from penstock.coordination.identity import cluster_id_of
from penstock.coordination.interface import Create, Store
from penstock.coordination.paths import (
    CLUSTER,
    CLUSTER_ID,
    CURRENT_FORMAT,
    FORMAT,
    STORE_FORMAT,
    StoreFormat,
    ensure_parents,
)
from penstock.coordination.registration import check_node_id, wait_until_free
from penstock.errors import PenstockError, Problem

# Enough to recognise whose they are.
_SHOWN_NAMES = 5


class Membership(NamedTuple):
    cluster_id: str
    directory_id: UUID


async def join_cluster(
    store: Store, directory: DataDirectory, node_id: int, *, is_private: bool, patience_ms: int = 0
) -> Membership:
    """Everything is checked before anything is written, to the store or to the directory.

    `is_private`: nobody else can have written to the store (the embedded one), so one without a format is an early
    release's. `patience_ms`: how long a registration of this id by another data directory may take to go; that of a
    broker that died goes with its session.

    Raises PenstockError: INVALID_CONFIG that says what does not fit, STORAGE_FAILED for a node that holds something
    else than it should, and what the store raises.
    """
    await store.sync()
    is_new = await _check_format(store, is_private)
    await _check_cluster(store, directory, is_private)
    await wait_until_free(store, node_id, directory.directory_id, patience_ms)
    await check_node_id(store, node_id, directory.directory_id)
    if is_new:
        await _create_format(store)
    await ensure_parents(store)
    cluster_id = await cluster_id_of(store)
    return Membership(cluster_id, directory.settle(cluster_id))


async def _check_format(store: Store, is_private: bool) -> bool:
    """Whether it has none yet."""
    node = await store.read(FORMAT)
    if node is None:
        names = await store.children("/")
        if posixpath.basename(FORMAT) in names:
            # Another node's first start came in between.
            return await _check_format(store, is_private)
        if names and not is_private:
            shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
            text = f"there are nodes that are not Penstock's ({shown}): name another chroot, or one that does not exist"
            raise PenstockError(Problem.INVALID_CONFIG, f"the coordination store is in use by something else: {text}")
        return True
    found = STORE_FORMAT.decode(node.data, FORMAT).format
    if found != CURRENT_FORMAT:
        advice = "upgrade this node" if found > CURRENT_FORMAT else "upgrade the cluster by the releases in between"
        text = f"the coordination store has format {found}, this release knows {CURRENT_FORMAT}: {advice}"
        raise PenstockError(Problem.INVALID_CONFIG, text)
    return False


async def _create_format(store: Store) -> None:
    try:
        await store.commit([Create(FORMAT, STORE_FORMAT.encode(StoreFormat(CURRENT_FORMAT)))])
    except PenstockError as error:
        if error.problem is not Problem.STORE_CONFLICT:
            raise
        # Another node's first start was faster.
        await _check_format(store, is_private=False)


async def _check_cluster(store: Store, directory: DataDirectory, is_private: bool) -> None:
    if directory.cluster_id is None and directory.has_embedded_store and not is_private:
        text = f"{directory.path} was used by a node of its own: its topics are not in this cluster"
        raise PenstockError(Problem.INVALID_CONFIG, f"{text}. Use another data directory")
    node = await store.read(CLUSTER_ID)
    found = None if node is None else CLUSTER.decode(node.data, CLUSTER_ID).cluster_id
    if directory.cluster_id is None or found == directory.cluster_id:
        return
    there = "no cluster yet" if found is None else f"cluster {found}"
    raise PenstockError(
        Problem.INVALID_CONFIG,
        f"{directory.path} belongs to cluster {directory.cluster_id}, but the coordination store has {there}: "
        "check the setting coordination and its chroot, or use another data directory",
    )
