"""FindCoordinator: which broker serves a group. The first question creates the offsets topic.

Deviation: coordinators of transactions and of share groups are not served yet, and are refused.
"""

from __future__ import annotations

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

_GROUP = 0


class FindCoordinator:
    api = Api(key=10, versions=(0, 6))

    def __init__(self, groups: Groups, image: Image, offsets_partition_count: int) -> None:
        self._groups = groups
        self._image = image
        self._offsets_partition_count = offsets_partition_count

    def start(
        self, request: FindCoordinatorRequest, caller: Caller
    ) -> FindCoordinatorResponse | Later[FindCoordinatorResponse]:
        if request.key_type != _GROUP:
            text = f"coordinators of type {request.key_type} are not served here"
            return _response([_nowhere(key, ErrorCode.invalid_request, text) for key in request.coordinator_keys])
        return awaiting(self._find(request.coordinator_keys, (caller.local_host, caller.local_port)))

    async def _find(self, keys: tuple[str, ...], address: tuple[str, int]) -> FindCoordinatorResponse:
        refused = await self._groups.ensure_topic(self._offsets_partition_count)
        return _response([self._row(key, refused, address) for key in keys])

    def _row(self, key: str, refused: Refused | None, address: tuple[str, int]) -> Coordinator:
        if not key:
            return _nowhere(key, ErrorCode.invalid_group_id, "a group needs a name")
        if refused is not None:
            return _nowhere(key, code_of(refused), refused.text)
        leader = self._leader_of(key)
        if leader is None:
            return _nowhere(key, ErrorCode.coordinator_not_available, "nobody leads the group's partition now")
        broker = broker_row(leader, address)
        return Coordinator(
            key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=NONE, error_message=None
        )

    def _leader_of(self, group_id: str) -> BrokerImage | None:
        topic, partition = self._image.topic(OFFSETS_TOPIC), self._groups.partition_of(group_id)
        if topic is None or partition is None:
            return None
        return self._image.brokers.get(topic.partitions[partition].leader)


def _response(rows: list[Coordinator]) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(rows))


def _nowhere(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=BrokerId(-1), host="", port=i32(-1), error_code=code, error_message=text)
