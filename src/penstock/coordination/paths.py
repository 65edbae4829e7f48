"""Every path of the coordination store and what its node holds. Nothing else names a path.

Nodes hold JSON, so that an operator can read them. Fields may be added with a default; none may be renamed.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from penstock.coordination.interface import Create, Store
from penstock.decoding import decoded
from penstock.errors import PenstockError, Problem

# The first node of a store, so what has nodes but not this one is somebody else's.
FORMAT = "/format"
TOPICS = "/topics"
TOPIC_CONFIGS = "/configs/topics"
PRODUCER_IDS = "/producer-ids"
CLUSTER_ID = "/cluster-id"
REGISTRATIONS = "/brokers/ids"
BROKER_STATES = "/brokers/states"
# Ephemeral: goes with the session of the broker that is the controller.
CONTROLLER = "/controller"
# Its version grows with each controller, so a check of it fences all writes of an earlier one.
CONTROLLER_EPOCH = "/controller-epoch"

# Parents that must exist before anything can be created below them.
_PARENTS = (TOPICS, "/configs", TOPIC_CONFIGS, "/brokers", REGISTRATIONS, BROKER_STATES)

NO_LEADER = -1
NO_EPOCH = -1
# Of all nodes together; grows when an earlier release would misread one of them.
CURRENT_FORMAT = 1


class PartitionState(msgspec.Struct, frozen=True):
    # NO_LEADER while nobody may lead
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    # The first is the preferred leader.
    replicas: tuple[int, ...]
    # Left the ISR when it was already below min.insync.replicas, so they have all that was committed (KIP-966).
    eligible_leaders: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    # A reassignment under way: those of `replicas` that come and go.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    # What counts for this partition, at this version: below it the high watermark stands still, and who leaves the ISR
    # stays eligible. It is in here because leader and controller must never differ about it.
    min_insync_replicas: int = 1
    # With flush.policy=os: were in the ISR or eligible, and the leader has not spoken since. They may have everything,
    # or lack the newest after an unclean stop.
    last_known_eligible_leaders: tuple[int, ...] = ()
    # Bytes a second of all that comes to one broker by reassignments with the same rate; 0: as fast as it can. It is in
    # here so that it ends with the reassignment, whatever becomes of who asked for it.
    throttled_rate: int = 0


class TopicState(msgspec.Struct, frozen=True):
    """Partitions below `partition_count` exist; those beyond are being added, or were left by an addition that failed.

    0: the topic is being made or removed, in more than one transaction. Whoever finds that at the beginning of an
    office removes what there is.
    """

    topic_id: UUID
    partition_count: int
    # Grows from topic to topic: of two of one name the later has the higher.
    generation: int


class Registration(msgspec.Struct, frozen=True):
    """A live broker; ephemeral. The broker epoch is the node's creation id, so it is not in here."""

    host: str
    port: int
    # Brokers of one machine share it: a failure domain.
    machine: str
    rack: str | None
    directory_id: UUID
    # Whether the disk has all that was acknowledged up to the admitted epoch and since: no run ended unsynced that was
    # not admitted after it. So a broker that begins after an unclean stop says False until it has been admitted, also
    # when its session ends meanwhile, and also in its next life.
    clean: bool
    # If not: what it acknowledged may have been on no disk by its own default (flush.policy=os), whatever others have.
    unsynced: bool = False
    # Or by these topics' own settings, whatever they are by now.
    unsynced_topics: tuple[UUID, ...] = ()


class BrokerState(msgspec.Struct, frozen=True):
    """What is known of a broker for good, also while it is away."""

    directory_id: UUID
    # The newest registration that may lead and be in sync: all that an earlier one lost has been taken from it.
    admitted_epoch: int
    # Registrations up to this one are dead, whatever their session says.
    fenced_epoch: int = NO_EPOCH
    # No new replicas, and those that are there leave.
    draining: bool = False
    # Of the moves by which it is drained; 0: as fast as they can.
    draining_rate: int = 0
    # Settings that were changed while it runs, by Kafka's name, as text. They count over those of its start.
    config: dict[str, str] = {}


class ControllerState(msgspec.Struct, frozen=True):
    broker: int
    broker_epoch: int


class ControllerEpoch(msgspec.Struct, frozen=True):
    epoch: int


class StoreFormat(msgspec.Struct, frozen=True):
    format: int


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
            return decoded(self._decoder, data)
        except ValueError as error:
            text = f"{path} in the coordination store does not hold a {self._kind.__name__}: {error}"
            raise PenstockError(Problem.STORAGE_FAILED, text) from error


TOPIC = Codec(TopicState)
CONFIGS = Codec(ConfigValues)
PRODUCER_ID = Codec(ProducerIdState)
CLUSTER = Codec(ClusterIdentity)
STORE_FORMAT = Codec(StoreFormat)
PARTITION = Codec(PartitionState)
REGISTRATION = Codec(Registration)
BROKER_STATE = Codec(BrokerState)
CONTROLLER_STATE = Codec(ControllerState)
CONTROLLER_EPOCH_STATE = Codec(ControllerEpoch)


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/{partition}"


def registration_path(node_id: int) -> str:
    return f"{REGISTRATIONS}/{node_id}"


def broker_state_path(node_id: int) -> str:
    return f"{BROKER_STATES}/{node_id}"


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
