"""What a marker at the end of a log changes."""

from __future__ import annotations

from penstock.storage.state import LogState
from penstock.wire.batch import BatchHeader, read_header
from penstock.wire.control import read_marker


def end_transaction(log: LogState, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
    """`batch` is a control batch that was just appended, with its offset in it; `header` may be from before that."""
    stamped = read_header(batch)
    marker = read_marker(batch)
    aborted = log.producer_states.end(header, marker, stamped.base_offset, stamped.max_timestamp, now_ms)
    if aborted is not None:
        log.aborted.rows.add(aborted)
