"""FindCoordinator: which broker serves a group, or a transactional id. The first question makes the topic behind it.

Deviation: coordinators of share groups are not served yet, and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.apis.metadata import broker_row
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.image import BrokerImage, Image
from penstock.errors import Refused
from penstock.groups.coordinator import OFFSETS_TOPIC, Groups
from penstock.later import Later, awaiting
from penstock.transactions.coordinator import TRANSACTIONS_TOPIC, Transactions

_GROUP = 0
_TRANSACTION = 1


class Coordinated(Protocol):
    """What has coordinators."""

    def partition_of(self, name: str, /) -> int | None: ...

    async def ensure_topic(self, partition_count: int) -> Refused | None: ...


@dataclass(frozen=True)
class _Kind:
    coordinated: Coordinated
    topic: str
    partition_count: int
    nameless: ErrorCode
    noun: str


class FindCoordinator:
    api = Api(key=10, versions=(0, 6))

    def __init__(
        self,
        groups: Groups,
        transactions: Transactions,
        image: Image,
        offsets_partition_count: int,
        transactions_partition_count: int,
    ) -> None:
        self._image = image
        self._kinds = {
            _GROUP: _Kind(groups, OFFSETS_TOPIC, offsets_partition_count, ErrorCode.invalid_group_id, "group"),
            _TRANSACTION: _Kind(
                transactions,
                TRANSACTIONS_TOPIC,
                transactions_partition_count,
                ErrorCode.invalid_request,
                "transactional id",
            ),
        }

    def start(
        self, request: FindCoordinatorRequest, caller: Caller
    ) -> FindCoordinatorResponse | Later[FindCoordinatorResponse]:
        kind = self._kinds.get(request.key_type)
        if kind is None:
            text = f"coordinators of type {request.key_type} are not served here"
            return _response([_nowhere(key, ErrorCode.invalid_request, text) for key in request.coordinator_keys])
        return awaiting(self._find(kind, request.coordinator_keys, (caller.local_host, caller.local_port)))

    async def _find(self, kind: _Kind, keys: tuple[str, ...], address: tuple[str, int]) -> FindCoordinatorResponse:
        refused = await kind.coordinated.ensure_topic(kind.partition_count)
        return _response([self._row(kind, key, refused, address) for key in keys])

    def _row(self, kind: _Kind, key: str, refused: Refused | None, address: tuple[str, int]) -> Coordinator:
        if not key:
            return _nowhere(key, kind.nameless, f"a {kind.noun} needs a name")
        if refused is not None:
            return _nowhere(key, code_of(refused), refused.text)
        leader = self._leader_of(kind, key)
        if leader is None:
            return _nowhere(key, ErrorCode.coordinator_not_available, f"nobody leads the {kind.noun}'s partition now")
        broker = broker_row(leader, address)
        return Coordinator(
            key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=NONE, error_message=None
        )

    def _leader_of(self, kind: _Kind, key: str) -> BrokerImage | None:
        topic, partition = self._image.topic(kind.topic), kind.coordinated.partition_of(key)
        if topic is None or partition is None:
            return None
        return self._image.brokers.get(topic.partitions[partition].leader)


def _response(rows: list[Coordinator]) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(rows))


def _nowhere(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=BrokerId(-1), host="", port=i32(-1), error_code=code, error_message=text)
