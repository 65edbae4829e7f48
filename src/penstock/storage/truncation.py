"""Taking back the end of a log, when another replica is right about it. Blocking; nothing else may use the log."""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.core.producer_state import NO_TRANSACTION, ProducerStates
from penstock.storage.doubt import remove_mark
from penstock.storage.producer_replay import replay_producers
from penstock.storage.room import give_back
from penstock.storage.segment import Segment
from penstock.storage.state import LogState


class _Cut(NamedTuple):
    """Which segments stay, where the last of them is cut if it is, and where it and the log then end."""

    kept: list[Segment]
    last: Segment | None
    position: int
    next_offset: int
    end_offset: int


def truncate(log: LogState, offset: int) -> None:
    """The log ends before the batch that holds `offset`, on disk too. Raises PenstockError; then the log has failed.

    It happens when a checkpoint says so, which also voids what the journal has of it: a crash before leaves the log as
    it was, and at a start after it what is left over goes. So it does not matter in which order things go.
    """
    offset = max(offset, log.start_offset)
    if offset >= log.end_offset:
        return
    try:
        cut = _find(log, offset)
        producers = _producers_at(log, cut.end_offset)
        log.commit.sync_now(log.active)
        if not log.commit.names_are_synced:
            # The checkpoint will speak of their files, and could be kept where their names are not.
            log.disk.sync_directory(log.directory)
        remove_mark(log.disk, log.directory)
        start_offset = log.start_offset
        dropped = _forget(log, cut, producers)
        log.files.take_back_start(cut.end_offset, start_offset)
        log.holes = log.holes.before(log.end_offset)
        log.gather_checkpoint(for_good=True, is_cut=True)()
        log.checkpoint_written(None)
        _remove(log, dropped)
        if cut.last is not None:
            cut.last.file().truncate(cut.last.size)
            cut.last.file().sync()
        settle_truncation(log)
    except OSError as error:
        log.fail(f"truncation to offset {offset} failed: {error}")
        raise log.failed_error() from error


def settle_truncation(log: LogState) -> None:
    """All that is left over was removed and cut off: from now on what comes behind the end counts. Raises OSError."""
    log.commit.sync_now(log.active)
    log.disk.sync_directory(log.directory)
    log.gather_checkpoint(for_good=True)()
    log.checkpoint_written(None)
    log.commit.everything_synced()
    for segment in log.segments:
        give_back(segment)
    log.synced_offset = log.durable_offset = log.end_offset
    log.synced_bytes = log.durable_bytes = log.appended_bytes


def _find(log: LogState, offset: int) -> _Cut:
    """Where compaction took out what held `offset`, the log ends there, behind the last batch: nothing is missing."""
    segment = log.segment_of(offset)
    if segment is None:
        return _Cut([], None, 0, 0, log.start_offset)
    place = log.segments.index(segment)
    next_offset, position = segment.next_offset, segment.size
    # Where a gap behind the last batch that stays ends, if there is one.
    gap_end = offset
    if (damage := segment.damage_at(offset)) is not None:
        next_offset, position = damage.first_offset, damage.position
        gap_end = next_offset
    elif offset < next_offset:
        indexes = segment.ready_indexes(log.settings.index_interval_bytes)
        next_offset, position = segment.place_before(offset, indexes)
        for found, header in segment.batches(position):
            if header.next_offset > offset:
                # One that does not begin right there is behind damage that nobody has noticed yet.
                gap_end = min(header.base_offset, offset) if found == position else next_offset
                break
            next_offset, position = header.next_offset, found + header.size
    # Not before a gap: its offsets may have been committed, and are not given again.
    end_offset = gap_end if segment.gaps or offset >= segment.next_offset else next_offset
    if end_offset <= log.start_offset:
        # What is left could not be read; and offsets below the start are not given again.
        return _Cut([], None, 0, 0, log.start_offset)
    if position == 0:
        return _Cut(log.segments[:place], None, 0, 0, end_offset)
    return _Cut(log.segments[: place + 1], segment, position, next_offset, end_offset)


def _forget(log: LogState, cut: _Cut, producers: ProducerStates) -> list[Segment]:
    """The log is as it should be, in memory. Returns the segments that left it."""
    dropped = log.segments[len(cut.kept) :]
    log.commit.drop(dropped)
    if cut.last is not None:
        cut.last.cut(cut.position, cut.next_offset, log.settings.index_interval_bytes)
    for segment in cut.kept:
        if segment.indexes is not None and log.commit.in_flight:
            # A checkpoint that was gathered before is void, and with it what it was to write of them.
            segment.indexes.forget_saved()
    if log.commit.in_flight:
        log.aborted.forget_saved()
    log.segments = cut.kept
    if not cut.kept:
        # Its first records may have been lost: what is gone with all others is not damage any more.
        log.move_start(cut.end_offset)
    log.active = cut.last if cut.last is not None and cut.last.next_offset == cut.end_offset else None
    log.end_offset = cut.end_offset
    log.clean_offset = min(log.clean_offset, cut.end_offset)
    log.epochs.cut_end(cut.end_offset)
    log.latest_epoch = log.epochs.latest
    log.producer_states = producers
    log.aborted.rows.cut_end(cut.end_offset if cut.kept else 0)
    log.stage = None
    log.truncations += 1
    log.forget_tail()
    log.size_bytes = sum(segment.size for segment in cut.kept)
    return dropped


def _remove(log: LogState, dropped: list[Segment]) -> None:
    """With all that retention and compaction have not removed yet: their names will be given to new segments, and a

    start would take them for such.
    """
    replaced = [segment for _, segment in log.doomed if _is_beyond(segment, log.end_offset)]
    for segment in (*dropped, *replaced):
        segment.truncations += 1
        segment.release()
        segment.remove_files()


def _is_beyond(segment: Segment, end_offset: int) -> bool:
    return segment.next_offset > end_offset or segment.base_offset >= end_offset


def _producers_at(log: LogState, end_offset: int) -> ProducerStates:
    """From the newest snapshot that is not beyond, and the batches since."""
    last_used_ms = {entry.producer_id: entry.last_used_ms for entry in log.producer_states.entries()}
    states, _, ended_later = replay_producers(log.disk, log.segments, end_offset, last_used_ms)
    still_open = log.producer_states.transactions.open
    for producer_id in list(states.transactions.open):
        # One that neither is open now nor has ended behind the cut has ended before it: compaction took its marker, but
        # not out of the snapshot.
        start_offset = still_open.get(producer_id, end_offset)
        if start_offset < end_offset:
            states.move_transaction(producer_id, start_offset)
        elif producer_id not in ended_later:
            states.move_transaction(producer_id, NO_TRANSACTION)
    return states
