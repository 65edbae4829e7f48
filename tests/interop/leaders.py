"""Who leads what, for requests that go past every client library, which would have asked for itself."""

from __future__ import annotations

from tests.bad_input import requests
from tests.bad_input.raw import RawConnection


def brokers(bootstrap: str) -> dict[int, str]:
    """The addresses of all, by node id, as the first of `bootstrap` tells them."""
    with RawConnection(bootstrap.split(",")[0]) as connection:
        return {row.node_id: f"{row.host}:{row.port}" for row in connection.ask(requests.metadata()).brokers}


def leaders(broker: str, topic: str) -> list[int]:
    """By partition, as this broker tells them: -1 where nobody leads, nothing where it has not heard of the topic."""
    with RawConnection(broker) as connection:
        (row,) = connection.ask(requests.metadata(topic)).topics
    partitions = sorted(row.partitions, key=lambda partition: int(partition.partition_index))
    return [int(partition.leader_id) for partition in partitions]
