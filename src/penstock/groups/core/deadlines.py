"""What of a group falls due at some moment."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from penstock.replication.core import deadlines


class Purpose(IntEnum):
    """What falls due. At the same moment they run in this order."""

    SESSION = 1
    JOIN_PHASE = 2
    SYNC_PHASE = 3
    REVOCATION = 4
    OFFSET_EXPIRY = 5


class Deadline(NamedTuple):
    """Which timer; `member_id` is empty for those of a whole group, `group_id` for those of the whole machine."""

    group_id: str
    purpose: Purpose
    member_id: str = ""


class Deadlines(deadlines.Deadlines[Deadline]):
    def __init__(self) -> None:
        super().__init__(order=lambda deadline: (deadline.purpose, deadline))
