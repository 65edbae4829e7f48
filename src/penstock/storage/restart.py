"""A log that begins anew somewhere else, when nothing that it has can be joined to what its leader has."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.disk.interface import replace_atomically
from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.holes import Holes
from penstock.storage.core.leader_epochs import LeaderEpochs
from penstock.storage.core.log_files import START_OFFSET_NAME
from penstock.storage.core.producer_state import ProducerStates
from penstock.storage.core.sealed import seal
from penstock.storage.doubt import remove_mark
from penstock.storage.sealed import read_sealed
from penstock.storage.segment import Segment
from penstock.storage.state import LogState
from penstock.storage.transaction_index import TransactionIndexes

RESTART_NAME = "restart"


class Restarting(msgspec.Struct, array_like=True, frozen=True):
    """Word of a log on its way back, from before anything of it goes until it is there.

    Without that an interrupted one would be found empty where it had ended, as if all had been deleted, and would go
    on there without what its leader has in between.
    """

    offset: int


def restart_at(log: LogState, offset: int) -> None:
    """All records go, for good, and with them what the journal has of them; the log starts and ends at `offset`.

    Blocking; nothing else may use the log meanwhile. Raises PenstockError; then the log has failed. After a crash in
    between it is as it was, or empty at `offset` once it has been opened (`end_restart`).
    """
    if log.failure is not None:
        raise log.failed_error()
    try:
        goes_back = offset < log.end_offset
        if goes_back:
            replace_atomically(log.disk, _word_path(log), seal(Restarting(offset)))
        remove_mark(log.disk, log.directory)
        dropped = _forget_all(log)
        # First above all that there was: of files with lower numbers a start knows that they do not count.
        _checkpoint(log, max(offset, log.end_offset))
        for segment in dropped:
            segment.truncations += 1
            segment.release()
            segment.remove_files()
        log.disk.sync_directory(log.directory)
        if goes_back:
            _go_back(log, offset)
            _forget_word(log)
        log.commit.everything_synced()
        log.synced_bytes = log.durable_bytes = log.appended_bytes
    except OSError as error:
        log.fail(f"to begin anew at offset {offset} failed: {error}")
        raise log.failed_error() from error


def end_restart(log: LogState) -> None:
    """Of a log that was just opened: what a crash interrupted. Raises OSError, and PenstockError as `restart_at`."""
    word = read_sealed(log.disk, _word_path(log), Restarting)
    if word is not None and word.offset < log.end_offset:
        restart_at(log, word.offset)
    elif log.disk.exists(_word_path(log)):
        # It had come as far as it should.
        _forget_word(log)


def _word_path(log: LogState) -> str:
    return f"{log.directory}/{RESTART_NAME}"


def _forget_word(log: LogState) -> None:
    """For good, before anything is appended: it would take that away."""
    log.disk.remove(_word_path(log))
    log.disk.sync_directory(log.directory)


def _forget_all(log: LogState) -> Sequence[Segment]:
    """Everything but the numbers. Returns the segments whose files are left."""
    left = [*log.segments, *(segment for _, segment in (*log.doomed, *log.replaced))]
    log.commit.drop(log.segments)
    log.segments = []
    log.doomed, log.replaced = [], []
    log.active = None
    log.stage = None
    log.epochs, log.latest_epoch = LeaderEpochs(), None
    log.producer_states = ProducerStates()
    log.aborted = TransactionIndexes()
    log.holes = Holes()
    log.size_bytes = 0
    log.truncations += 1
    log.forget_tail()
    return left


def _checkpoint(log: LogState, offset: int) -> None:
    log.start_offset = log.end_offset = log.clean_offset = offset
    log.synced_offset = log.durable_offset = offset
    log.gather_checkpoint(for_good=True)()
    log.checkpoint_written(None)


def _go_back(log: LogState, offset: int) -> None:
    """A start never moves back by itself, so what says where it was goes first."""
    path = f"{log.directory}/{START_OFFSET_NAME}"
    if log.disk.exists(path):
        log.disk.remove(path)
        log.disk.sync_directory(log.directory)
    log.files = CheckpointFiles(log.disk, log.directory)
    _checkpoint(log, offset)
