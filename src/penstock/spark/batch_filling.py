"""Rows into the records of batches: by the kernel where it was built, which takes a compiler, else in Python."""

from __future__ import annotations

from typing import Protocol

from penstock.spark.pure_batch_filling import PureBatchFilling
from penstock.spark.sink_columns import FilledBatch, SinkColumns

try:
    from penstock.spark._batch_filling import BatchFilling as _Kernel
except ImportError:
    HAS_KERNEL = False
else:
    HAS_KERNEL = True


class BatchFilling(Protocol):
    """See PureBatchFilling."""

    @property
    def held_bytes(self) -> int: ...

    def limit(self, batch_bytes: int) -> None: ...

    def append(self, rows: SinkColumns, now_ms: int) -> list[FilledBatch]: ...

    def take(self) -> list[FilledBatch]: ...


def batch_filling(partitions: int, batch_bytes: int, max_request_bytes: int, first_partition: int) -> BatchFilling:
    made = _Kernel if HAS_KERNEL else PureBatchFilling
    return made(partitions, batch_bytes, max_request_bytes, first_partition)
