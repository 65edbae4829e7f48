"""What an interrupted step has left in a log's directory goes before the log is opened."""

from __future__ import annotations

from penstock.disk.interface import Disk
from penstock.storage.core.checkpoint import Checkpoint
from penstock.storage.core.living import living_segments
from penstock.storage.core.log_files import SEGMENT_FILE, SUFFIXES


def sweep(
    disk: Disk, directory: str, names: set[str], checkpoint: Checkpoint | None, start_offset: int
) -> list[tuple[int, int]]:
    """Base offset and generation of the segments that count. Blocking; raises OSError.

    What goes, also from `names`, is temporary files, segments below the start, those that the checkpoint would know if
    they counted, and parts of any of them.
    """
    present = living_segments(names, checkpoint, start_offset)
    dead = {name for name in names if name.endswith(".tmp")}
    for name in names:
        match = SEGMENT_FILE.fullmatch(name)
        if match and match[3] in SUFFIXES and present.get(int(match[1])) != int(match[2] or 0):
            dead.add(name)
    is_cut = checkpoint is not None and checkpoint.is_cut
    if dead or is_cut:
        # The checkpoint that condemns them must not be lost while their removal, or a cut, is kept.
        disk.sync_directory(directory)
    for name in sorted(dead):
        disk.remove(f"{directory}/{name}")
    if is_cut:
        # The next checkpoint does not condemn them any more.
        disk.sync_directory(directory)
    names -= dead
    return sorted(present.items())
