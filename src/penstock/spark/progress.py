"""How far a stream is, shown as a consumer group, so that lag and alerts cover Spark as they cover consumers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.spark.cluster import Cluster
from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.topic_partition import TopicPartition


class GroupInUse(ClientFailure):
    """Consumers commit to this group: two would move it to and fro."""


class Progress:
    """Publishes what a query has done with. For one thread."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._published: dict[TopicPartition, int] | None = None

    def publish(self, offsets: Mapping[TopicPartition, int]) -> None:
        """What is published already is not sent again. Raises ClientFailure."""
        if self._published is None:
            self._check_nobody_is_in_it()
            self._published = {}
        news = {tp: offset for tp, offset in offsets.items() if self._published.get(tp) != offset}
        if news:
            self._cluster.commit(self._group, news)
            self._published |= news

    def _check_nobody_is_in_it(self) -> None:
        group = self._cluster.describe_group(self._group)
        if group.members:
            raise GroupInUse(
                f"The group '{self._group}' has {len(group.members)} members (client ids: "
                f"{', '.join(sorted(set(group.members)))}). A query publishes its progress to a group of its own: stop "
                "them, or set another kafka.group.id"
            )
