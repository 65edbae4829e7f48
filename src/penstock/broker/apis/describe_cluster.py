"""DescribeCluster: the brokers and the controller."""

from __future__ import annotations

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.apis.metadata import broker_row, reachable
from penstock.broker.error_codes import NONE
from penstock.cluster.core.image import Image

_BROKERS = 1


class DescribeCluster:
    """Controllers are brokers here, so there is no controller endpoint to describe."""

    api = Api(key=60, versions=(0, 2))

    def __init__(self, image: Image) -> None:
        self._image = image

    def start(self, request: DescribeClusterRequest, caller: Caller) -> DescribeClusterResponse:
        if request.endpoint_type != _BROKERS:
            return self._response(ErrorCode.unsupported_endpoint_type, "only brokers can be described here", ())
        rows = [broker_row(broker, (caller.local_host, caller.local_port)) for broker in reachable(self._image)]
        brokers = tuple(
            DescribeClusterBroker(broker_id=row.node_id, host=row.host, port=row.port, rack=row.rack, is_fenced=False)
            for row in rows
        )
        return self._response(NONE, None, brokers)

    def _response(
        self, code: ErrorCode, message: str | None, brokers: tuple[DescribeClusterBroker, ...]
    ) -> DescribeClusterResponse:
        return DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            error_message=message,
            cluster_id=self._image.cluster_id,
            controller_id=BrokerId(self._image.controller_id),
            brokers=brokers,
        )
