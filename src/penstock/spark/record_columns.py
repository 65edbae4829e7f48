"""The records of batches as columns: by the kernel where it was built, which takes a compiler, else in Python."""

from __future__ import annotations

import logging
from functools import cache
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


_logger = logging.getLogger(__name__)


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
    if HAS_KERNEL:
        return _Kernel(wanted)
    _warn_of_slowness()
    return PureRecordColumns(wanted)


@cache
def _warn_of_slowness() -> None:
    """Once per process: that it is slow shows nowhere else."""
    _logger.warning(
        "records are decoded in Python, many times slower than by the kernel, which was not built: install a C "
        "compiler and Python's headers (gcc and python3-dev on Debian), then reinstall penstock"
    )
