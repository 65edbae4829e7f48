"""The topics that a group coordinator knows of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from penstock.groups.core.regex import topics_matching


@dataclass(frozen=True, slots=True)
class KnownTopic:
    topic_id: UUID
    partition_count: int
    is_internal: bool = False


@dataclass(frozen=True, eq=False)
class TopicsView:
    """One state of the metadata. Never changed, so all groups share one; a newer state is another object."""

    by_name: Mapping[str, KnownTopic]
    names: Mapping[UUID, str] = field(init=False)
    """Topic id to name."""
    partition_counts: Mapping[UUID, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {topic.topic_id: name for name, topic in self.by_name.items()})
        object.__setattr__(self, "partition_counts", self.existing(self.by_name))

    def matching(self, pattern: str) -> frozenset[str]:
        """Internal topics match no pattern: who subscribes to `.*` means their own topics."""
        return topics_matching(pattern, (name for name, topic in self.by_name.items() if not topic.is_internal))

    def existing(self, names: Iterable[str]) -> dict[UUID, int]:
        """Partition counts of those of these topics that exist."""
        found = (self.by_name.get(name) for name in names)
        return {topic.topic_id: topic.partition_count for topic in found if topic is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """Equal for equal topics, on every machine and after every restart; it is stored."""
        digest = hashlib.blake2b(digest_size=8)
        for topic_id, count in sorted((id_.bytes, count) for id_, count in self.existing(names).items()):
            digest.update(topic_id + count.to_bytes(4, "big"))
        # Signed, as the stored form has no larger whole numbers.
        return int.from_bytes(digest.digest(), "big", signed=True)
