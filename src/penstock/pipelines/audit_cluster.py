"""The brokers of a cluster as sources of an audit, and where its replicas should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse

from penstock.config.address import Address
from penstock.pipelines.audit_broker import BrokerSource, name_of
from penstock.pipelines.audit_tasks import Source
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.spark.connection import Connection
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import ClientFailure
from penstock.units import MINUTE_MS

# At a low rate a read waits for those before it.
_REQUEST_TIMEOUT_MS = 2 * MINUTE_MS

Placement = Mapping[tuple[str, int], Sequence[str]]
"""By what names the brokers go that should have a replica of each partition."""


class AuditedCluster:
    """`sources`: the brokers that were there in the beginning."""

    def __init__(self, bootstrap: tuple[Address, ...], token: str) -> None:
        """Raises PipelineRefused."""
        addresses, self._placement = _asked(_settings(bootstrap))
        # Whoever was named in the beginning may be gone later.
        self._settings = _settings(tuple(dict.fromkeys((*bootstrap, *addresses.values()))))
        self.sources: list[Source] = [
            BrokerSource(node_id, address, self._settings, token) for node_id, address in sorted(addresses.items())
        ]

    def placement(self) -> Placement:
        """As it is now: topics come and go, and replicas move, while others are read."""
        try:
            _, self._placement = _asked(self._settings)
        except PipelineRefused:
            # Then they have not moved either; that they are silent is told of each.
            return self._placement
        return self._placement


def _settings(bootstrap: tuple[Address, ...]) -> ClientSettings:
    return ClientSettings(bootstrap, client_id="penstock-audit", request_timeout_ms=_REQUEST_TIMEOUT_MS)


def _asked(settings: ClientSettings) -> tuple[dict[int, Address], Placement]:
    """Who is there, and what it says."""
    failures = []
    for address in settings.bootstrap:
        try:
            answer = _metadata(address, settings)
        except ClientFailure as error:
            failures.append(str(error))
            continue
        placement = {
            (str(topic.name), int(partition.partition_index)): tuple(
                name_of(int(node_id)) for node_id in partition.replica_nodes
            )
            for topic in answer.topics
            for partition in topic.partitions
        }
        return {int(row.node_id): Address(row.host, row.port) for row in answer.brokers}, placement
    raise PipelineRefused("no broker answers: " + "; ".join(failures))


def _metadata(address: Address, settings: ClientSettings) -> MetadataResponse:
    connection = Connection(address, settings)
    try:
        request = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        return connection.ask(request, MetadataResponse)
    finally:
        connection.close()
