"""What a scenario asks of an admin client. Adapters in `admins/`; a refused call raises `Refusal` in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.interop.member import Partition


@dataclass(frozen=True)
class Cluster:
    cluster_id: str
    controller_id: int
    brokers: tuple[tuple[int, str, int], ...]


@dataclass(frozen=True)
class Group:
    """`state` in small letters: stable, empty, dead, ..."""

    state: str
    assignor: str
    members: tuple[frozenset[Partition], ...]


class Admin(Protocol):
    """What all three libraries can do."""

    def close(self) -> None: ...

    def cluster(self) -> Cluster: ...

    def topics(self) -> dict[str, int]:
        """Every topic that is not internal, with its number of partitions."""
        ...

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def topic_configs(self, topic: str) -> dict[str, str | None]: ...

    def replace_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """AlterConfigs: what is not named goes back to its default."""
        ...

    def delete_records(self, topic: str, before: int) -> int:
        """From partition 0; returns the new first offset."""
        ...

    def groups(self) -> set[str]: ...

    def group(self, group: str) -> Group: ...

    def group_offsets(self, group: str) -> dict[Partition, int]: ...


class FullAdmin(Admin, Protocol):
    """What aiokafka cannot."""

    def change_topic_configs(self, topic: str, change: Mapping[str, str], unset: Sequence[str] = ()) -> None:
        """IncrementalAlterConfigs: what is not named stays."""
        ...

    def delete_group(self, group: str) -> None: ...

    def set_group_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None: ...

    def newest_record(self, topic: str) -> int:
        """The offset of the record with the greatest time in partition 0, wherever it lies."""
        ...
