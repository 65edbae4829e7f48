"""A broker's presence in its cluster: an ephemeral node, whose creation id is the broker epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from penstock.coordination.interface import Change, Create, Node, Remove, Store
from penstock.coordination.paths import REGISTRATION, REGISTRATIONS, Registration, registration_path
from penstock.errors import PenstockError, Problem

# Others can only get in between by starting a broker with the same id, so this is more than enough.
_ATTEMPTS = 10


# Whether the process that made this registration, in this broker epoch, answers at its address.
Answers = Callable[[Registration, int], Awaitable[bool]]


class IdTaken(PenstockError):
    """Another broker has this one's id, and this one cannot be a member."""


async def _nobody(held: Registration, broker_epoch: int) -> bool:
    return False


async def register(store: Store, node_id: int, registration: Registration, answers: Answers = _nobody) -> int:
    """The broker epoch of this session. Registering again in the same session changes nothing; in a new one, after
    LOST, it gives a higher epoch. A registration of the same data directory is replaced: who calls this holds the
    directory's lock, so the process that made it is dead. If it `answers`, elsewhere, one of the two directories is a
    copy of the other.

    Raises IdTaken when another broker holds the id. After STORE_UNAVAILABLE call it again when the store is connected.
    """
    path = registration_path(node_id)
    for _ in range(_ATTEMPTS):
        await store.sync()
        node = await store.read(path)
        held = None if node is None else REGISTRATION.decode(node.data, path)
        if node is not None and held is not None:
            if held.directory_id != registration.directory_id:
                raise _taken(node_id, held)
            if held == registration and node.owner == store.session_id:
                return node.created
            is_elsewhere = (held.host, held.port) != (registration.host, registration.port)
            if node.owner != store.session_id and is_elsewhere and await answers(held, node.created):
                raise IdTaken(Problem.INVALID_CONFIG, _copied(held))
        if await _try_commit(store, path, node, registration):
            made = await store.read(path)
            if made is not None and made.owner == store.session_id:
                return made.created
    raise PenstockError(Problem.STORE_UNAVAILABLE, f"{path} in the coordination store changes all the time")


async def _try_commit(store: Store, path: str, old: Node | None, registration: Registration) -> bool:
    changes: list[Change] = [] if old is None else [Remove(path, old.version)]
    try:
        await store.commit([*changes, Create(path, REGISTRATION.encode(registration), ephemeral=True)])
    except PenstockError as error:
        if error.problem is not Problem.STORE_CONFLICT:
            raise
        return False
    return True


async def wait_until_free(store: Store, node_id: int, directory_id: UUID | None, timeout_ms: int) -> None:
    """Until no broker with another data directory is registered under this id, or for `timeout_ms`.

    A broker that died keeps its registration until its session ends: one that comes back with a new disk need not
    fail for that.
    """
    path = registration_path(node_id)
    changed = asyncio.Event()
    unwatch = store.watch(path, lambda _: changed.set())
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while (node := await store.read(path)) is not None:
                if REGISTRATION.decode(node.data, path).directory_id == directory_id:
                    return
                await changed.wait()
                changed.clear()
    except TimeoutError:
        return
    finally:
        unwatch()


async def check_node_id(store: Store, node_id: int, directory_id: UUID | None) -> None:
    """Raises PenstockError(INVALID_CONFIG) if another live broker has this id, or has this data directory."""
    for held_id, held in await live_brokers(store):
        if held_id == node_id and held.directory_id != directory_id:
            raise _taken(node_id, held)
        if held_id != node_id and held.directory_id == directory_id:
            raise PenstockError(Problem.INVALID_CONFIG, f"as broker {held_id}: {_copied(held)}")


async def live_brokers(store: Store) -> Sequence[tuple[int, Registration]]:
    names = [name for name in await store.children(REGISTRATIONS) if name.isascii() and name.isdigit()]
    nodes = await store.read_many([registration_path(int(name)) for name in names])
    return [
        (int(name), REGISTRATION.decode(node.data, registration_path(int(name))))
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    ]


def _copied(held: Registration) -> str:
    return (
        f"the broker at {held.host}:{held.port} has a copy of this data directory ({held.directory_id}): give each "
        "broker a directory of its own"
    )


def _taken(node_id: int, held: Registration) -> IdTaken:
    return IdTaken(
        Problem.INVALID_CONFIG,
        f"broker id {node_id} is in use by the broker at {held.host}:{held.port} with data directory "
        f"{held.directory_id}: give each broker its own --node-id. If that one is dead, its registration goes "
        "when its session ends",
    )
