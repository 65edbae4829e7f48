"""Topics as requests name them, by name or by id, resolved against the image."""

from __future__ import annotations

from uuid import UUID

from penstock.cluster.core.image import Image, TopicImage
from penstock.errors import Problem


def resolve(image: Image, name: str, topic_id: UUID | None) -> TopicImage | Problem:
    if topic_id is not None:
        return image.topic_by_id(topic_id) or Problem.UNKNOWN_TOPIC_ID
    return image.topic(name) or Problem.UNKNOWN_TOPIC_OR_PARTITION


def check_partition(topic: TopicImage | Problem, index: int) -> Problem | None:
    if isinstance(topic, Problem):
        return topic
    return None if 0 <= index < len(topic.partitions) else Problem.UNKNOWN_TOPIC_OR_PARTITION
