"""Taking back the end of a log, when another replica is right about it. Blocking; nothing else may use the log."""

from __future__ import annotations

from penstock.storage.checkpoint import ProducerSnapshot
from penstock.storage.core.producer_state import ProducerStates
from penstock.storage.sealed import read_sealed
from penstock.storage.segment import SNAPSHOT_SUFFIX, Segment
from penstock.storage.state import LogState


def truncate(log: LogState, offset: int) -> None:
    """The log ends before the batch that holds `offset`, on disk too. Raises PenstockError; then the log has failed.

    First the checkpoint stops vouching for what goes, and voids what the journal has of it; then it goes, from the end:
    a crash in between leaves a log that is longer than asked for, and none with a hole.
    """
    offset = max(offset, log.start_offset)
    if offset >= log.end_offset:
        return
    try:
        kept, last, position, end_offset = _find(log, offset)
        log.commit.sync_now(log.active)
        dropped = log.segments[len(kept) :]
        if last is not None:
            last.cut(position, end_offset, log.settings.index_interval_bytes)
        for segment in dropped:
            segment.truncations += 1
        log.segments = kept
        log.end_offset = end_offset
        log.clean_offset = min(log.clean_offset, end_offset)
        log.epochs.cut_end(end_offset)
        log.latest_epoch = log.epochs.latest
        log.producer_states = _producers_at(log, end_offset)
        log.stage = None
        log.truncations += 1
        log.gather_checkpoint(for_good=True)()
        log.checkpoint_written(None)
        for segment in reversed(dropped):
            segment.remove_files()
        log.disk.sync_directory(log.directory)
        if last is not None:
            last.file().truncate(last.size)
            last.file().sync()
    except OSError as error:
        log.fail(f"truncation to offset {offset} failed: {error}")
        raise log.failed_error() from error
    log.commit.everything_synced()
    # The log may start inside the batch that went: offsets below its start are not given again.
    log.end_offset = log.synced_offset = log.durable_offset = max(end_offset, log.start_offset)
    log.active = last if log.end_offset == end_offset else None
    log.forget_tail()
    log.size_bytes = sum(segment.size for segment in kept)


def _find(log: LogState, offset: int) -> tuple[list[Segment], Segment | None, int, int]:
    """The segments that stay, the one of them that is cut, where, and the offset at which the log then ends."""
    segment = log.segment_of(offset)
    if segment is None:
        return [], None, 0, log.start_offset
    place = log.segments.index(segment)
    position, end_offset = segment.size, segment.next_offset
    if (damage := segment.damage_at(offset)) is not None:
        position, end_offset = damage.position, damage.first_offset
    elif offset < segment.next_offset:
        indexes = segment.ready_indexes(log.settings.index_interval_bytes)
        _, near = segment.place_before(offset, indexes)
        for found, header in segment.batches(near):
            if header.next_offset > offset:
                position, end_offset = found, header.base_offset
                break
    if position == 0:
        return log.segments[:place], None, 0, end_offset
    return log.segments[: place + 1], segment, position, end_offset


def _producers_at(log: LogState, end_offset: int) -> ProducerStates:
    """From the newest snapshot that is not beyond, and the batches since."""
    last_used_ms = {entry.producer_id: entry.last_used_ms for entry in log.producer_states.entries()}
    later: list[Segment] = []
    states = ProducerStates()
    for segment in reversed(log.segments):
        later.append(segment)
        snapshot = read_sealed(log.disk, segment.path + SNAPSHOT_SUFFIX, ProducerSnapshot)
        if snapshot is not None and snapshot.offset == segment.base_offset:
            states = ProducerStates(snapshot.producers)
            break
    for segment in reversed(later):
        for _, header in segment.batches(0):
            if header.producer_id >= 0 and header.base_offset < end_offset:
                used_ms = last_used_ms.get(header.producer_id, header.max_timestamp)
                states.record(header, header.base_offset, header.max_timestamp, used_ms)
    return states
