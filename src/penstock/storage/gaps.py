"""Word in a log's directory that offsets may be missing between its batches, whatever its cleanup.policy is by now.

A gap where none is expected is damage, or the end of what a crash has left. Compaction makes gaps and followers copy
them, also long after the topic has ceased to be compacted; so the word is on disk before anything behind the first gap
counts, and it stays.
"""

from __future__ import annotations

from penstock.disk.interface import Disk
from penstock.storage.core.log_files import GAPS_NAME


def say_gaps(disk: Disk, directory: str) -> None:
    """For good once the directory is synced. Raises OSError."""
    disk.open(f"{directory}/{GAPS_NAME}", create=True).close()


def says_gaps(disk: Disk, directory: str) -> bool:
    return disk.exists(f"{directory}/{GAPS_NAME}")
