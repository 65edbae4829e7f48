"""Looking into a node's journal from outside, for the commands that look into its logs. Blocking; changes nothing."""

from __future__ import annotations

from penstock.disk.interface import Disk
from penstock.storage.checkpoint import CheckpointFiles
from penstock.storage.core.log_files import TOPIC_ID_NAME, TopicIdentity
from penstock.storage.core.replay import Replay
from penstock.storage.journal import Journal
from penstock.storage.sealed import read_sealed


class JournalReader:
    """Keeps the journal that it read last: a look at a whole node reads it once."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._data_directory = ""
        self._journal: Journal | None = None

    def replay_for(self, log_directory: str) -> Replay:
        """What the next start of the node could put back into this log; nothing if the directory is not in a node's.

        Raises OSError, PenstockError.
        """
        topic_directory, _, partition = log_directory.rpartition("/partition-")
        data_directory, _, _ = topic_directory.rpartition("/topics/")
        if not data_directory or not partition.isdecimal():
            return Replay()
        identity = read_sealed(self._disk, f"{topic_directory}/{TOPIC_ID_NAME}", TopicIdentity)
        if identity is None:
            return Replay()
        share = self._journal_of(data_directory).share_for(identity.topic_id, int(partition))
        checkpoint, _ = CheckpointFiles(self._disk, log_directory).read()
        return Replay(share.journaled, checkpoint.journal_sequence if checkpoint is not None else 0)

    def _journal_of(self, data_directory: str) -> Journal:
        if self._journal is None or data_directory != self._data_directory:
            self._data_directory, self._journal = data_directory, Journal.open(self._disk, data_directory)
        return self._journal
