"""When the files of a log are to be synced, and when a checkpoint is to be written with that."""

from __future__ import annotations

from penstock.storage.state import LogState
from penstock.units import MIB

# How much only the operating system may have of a file for which nobody waits (flush.policy=os, or the journal has it),
# before a sync bounds what recovery must read.
_UNSYNCED_BYTES = 64 * MIB
# How many closed segments may wait for a sync for which nobody waits; each keeps its descriptor until then.
_UNSYNCED_SEGMENTS = 16


def sync_is_due(log: LogState, now_ms: int) -> bool:
    """By flush.policy; of what nobody waits for, before recovery would have too much to read."""
    settings = log.settings
    return (
        (settings.flush_policy == "acked" and log.end_offset > log.durable_offset)
        or log.end_offset - log.synced_offset >= settings.flush_messages
        or now_ms - log.unsynced_since_ms >= settings.flush_ms
        or log.appended_bytes - log.synced_bytes >= _UNSYNCED_BYTES
        or log.commit.rolled_count >= _UNSYNCED_SEGMENTS
        or log.checkpoint_is_due()
    )


def has_to_save(log: LogState, now_ms: int | None, *, checkpoint: bool) -> bool:
    """Whether a checkpoint is to be written in any case: it is asked for, or the log has fallen idle."""
    return (checkpoint or (now_ms is not None and log.is_idle(now_ms))) and log.has_unsaved


def wants_sync(log: LogState, now_ms: int | None, *, checkpoint: bool) -> bool:
    """Whether `Log.begin_sync` would find something to do."""
    if has_to_save(log, now_ms, checkpoint=checkpoint):
        return True
    return log.end_offset != log.synced_offset and (now_ms is None or sync_is_due(log, now_ms))
