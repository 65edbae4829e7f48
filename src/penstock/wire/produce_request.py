"""What Produce asks for. Apart from its reading, which is compiled: `Sequence` does not know compiled classes well."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload
from uuid import UUID

# In place of where the records end.
NULL = -1


class PartitionProduce(NamedTuple):
    partition_index: int
    # A view into the frame; None where the client sent null.
    records: memoryview | None


class PartitionRows(Sequence[PartitionProduce]):
    """Rows that are made when they are looked at: a row with its view takes twenty times what is kept of it."""

    __slots__ = ("_frame", "_places")

    def __init__(self, frame: memoryview, places: array[int]) -> None:
        self._frame = frame
        # Three numbers for each: index, start, end; no end where the client sent null.
        self._places = places

    def __len__(self) -> int:
        return len(self._places) // 3

    @overload
    def __getitem__(self, at: int) -> PartitionProduce: ...

    @overload
    def __getitem__(self, at: slice) -> list[PartitionProduce]: ...

    def __getitem__(self, at: int | slice) -> PartitionProduce | list[PartitionProduce]:
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        index, start, end = self._places[3 * range(len(self))[at] :][:3]
        return PartitionProduce(index, self._frame[start:end] if end != NULL else None)

    def __iter__(self) -> Iterator[PartitionProduce]:
        numbers = iter(self._places)
        for index, start, end in zip(numbers, numbers, numbers, strict=True):
            yield PartitionProduce(index, self._frame[start:end] if end != NULL else None)


class TopicProduce(NamedTuple):
    """By name up to version 12, by id from 13."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionProduce]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[TopicProduce]


class OneBatch(NamedTuple):
    """What most requests are: one batch, outside any transaction."""

    acks: int
    timeout_ms: int
    name: str
    topic_id: UUID | None
    partition_index: int
    records: memoryview

    @property
    def topics(self) -> Sequence[TopicProduce]:
        return (TopicProduce(self.name, self.topic_id, (PartitionProduce(self.partition_index, self.records),)),)

    @property
    def transactional_id(self) -> None:
        return None
