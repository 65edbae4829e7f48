"""WriteTxnMarkers, from whoever is no broker of this cluster: refused.

Deviation: brokers tell each other to write markers by a message of their own, which says who sends it and for whom it
is meant (`broker/marker_writing.py`). A client that could end others' transactions partition by partition would tear
them; to end a hanging one, ask its coordinator.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2.request import WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from penstock.broker.api import Api, Caller


class WriteTxnMarkers:
    api = Api(key=27, versions=(1, 1))

    def start(self, request: WriteTxnMarkersRequest, caller: Caller) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id, topics=tuple(_refused(topic) for topic in marker.topics)
                )
                for marker in request.markers
            )
        )


def _refused(topic: WritableTxnMarkerTopic) -> WritableTxnMarkerTopicResult:
    return WritableTxnMarkerTopicResult(
        name=topic.name,
        partitions=tuple(
            WritableTxnMarkerPartitionResult(
                partition_index=partition, error_code=ErrorCode.cluster_authorization_failed
            )
            for partition in topic.partition_indexes
        ),
    )
