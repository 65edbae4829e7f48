"""Every path of the coordination store and what its node holds. Nothing else names a path.

Nodes hold JSON, so that an operator can read them. Fields may be added with a default; none may be renamed.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from penstock.coordination.interface import Create, Store
from penstock.errors import PenstockError, Problem

TOPICS = "/topics"
TOPIC_CONFIGS = "/configs/topics"
PRODUCER_IDS = "/producer-ids"
CLUSTER_ID = "/cluster-id"

# Parents that must exist before anything can be created below them.
_PARENTS = (TOPICS, "/configs", TOPIC_CONFIGS)


class PartitionState(msgspec.Struct, frozen=True):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class TopicState(msgspec.Struct, frozen=True):
    """A topic and its partitions, partition n at position n."""

    topic_id: UUID
    partitions: tuple[PartitionState, ...]


class ConfigValues(msgspec.Struct, frozen=True):
    """Settings given for one topic or broker, by Kafka's name, as text."""

    values: dict[str, str]


class ProducerIdState(msgspec.Struct, frozen=True):
    """Every producer id below `next_producer_id` may have been handed out."""

    next_producer_id: int


class ClusterIdentity(msgspec.Struct, frozen=True):
    cluster_id: str


T = TypeVar("T", bound=msgspec.Struct)


class Codec(Generic[T]):
    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def encode(self, value: T) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, data: bytes, path: str) -> T:
        try:
            return self._decoder.decode(data)
        except msgspec.DecodeError as error:
            text = f"{path} in the coordination store does not hold a {self._kind.__name__}: {error}"
            raise PenstockError(Problem.STORAGE_FAILED, text) from error


TOPIC = Codec(TopicState)
CONFIGS = Codec(ConfigValues)
PRODUCER_ID = Codec(ProducerIdState)
CLUSTER = Codec(ClusterIdentity)


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


async def ensure_parents(store: Store) -> None:
    """Call it once at start, before anything else uses the store. Several nodes may do so at the same time."""
    for path in _PARENTS:
        if await store.read(path) is None:
            try:
                await store.commit([Create(path, b"")])
            except PenstockError as error:
                if error.problem is not Problem.STORE_CONFLICT:
                    raise
