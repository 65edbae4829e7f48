"""The records of batches as columns: by the kernel where it was built, which takes a compiler, else in Python."""

from __future__ import annotations

from typing import Protocol

from penstock.spark.column_buffers import ColumnBuffers
from penstock.spark.pure_record_columns import PureRecordColumns
from penstock.wire.batch import BatchHeader

try:
    from penstock.spark._record_columns import RecordColumns as _Kernel
except ImportError:
    HAS_KERNEL = False
else:
    HAS_KERNEL = True


class RecordColumns(Protocol):
    """See PureRecordColumns."""

    @property
    def rows(self) -> int: ...

    @property
    def data_bytes(self) -> int: ...

    def append(self, payload: bytes | bytearray | memoryview, header: BatchHeader, first: int, end: int) -> None: ...

    def take(self) -> ColumnBuffers: ...


def record_columns(wanted: int) -> RecordColumns:
    """`wanted`: bits of core/row_columns.py."""
    return _Kernel(wanted) if HAS_KERNEL else PureRecordColumns(wanted)
