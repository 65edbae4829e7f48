"""A part of a log that its disk did not keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import PenstockError, Problem


class Damage(NamedTuple):
    """Bytes of a segment that are no valid batches, and the offsets that they held. The bytes are kept."""

    first_offset: int
    next_offset: int
    position: int
    end_position: int

    def error(self) -> PenstockError:
        return PenstockError(
            Problem.CORRUPT_RECORDS,
            f"the records from offset {self.first_offset} to {self.next_offset - 1} are damaged on disk and cannot be "
            f"read. Continue reading at offset {self.next_offset}, or delete records before offset {self.next_offset}",
        )


def known_end(next_offset: int, damage: Sequence[Damage]) -> int:
    """Behind all that is known to have been in a segment, damaged or not."""
    return max(next_offset, *[each.next_offset for each in damage], 0)
