"""What opening a log found, for the people who run it."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.storage.core.damage import Damage
from penstock.storage.core.holes import Holes


@dataclass
class RecoveryReport:
    """Scanning what was written after the last checkpoint is normal; everything else here deserves a line."""

    # Below it a checkpoint says that everything was synced.
    recovery_offset: int = 0
    # Below it everything was synced, whether a checkpoint says so or a mark.
    synced_offset: int = 0
    known_holes: Holes = field(default_factory=Holes)
    scanned_bytes: int = 0
    torn_bytes: int = 0
    put_back_bytes: int = 0
    indexes_rebuilt: int = 0
    transaction_indexes_rebuilt: int = 0
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # All that the log had, if no segment is left of it: it goes on behind that as if it had been deleted.
    lost: tuple[int, int] | None = None

    @property
    def noteworthy(self) -> bool:
        rebuilt = self.indexes_rebuilt + self.transaction_indexes_rebuilt
        return bool(self.torn_bytes or self.put_back_bytes or rebuilt or self.damage or self.notes)

    @property
    def holes(self) -> Holes:
        """The damage that a power cut may have done to what was never synced, now or before an earlier start."""
        unvouched = {each[:2] for each in self.damage if each.first_offset >= self.recovery_offset}
        holes = Holes(tuple(sorted(unvouched.union(self.known_holes.ranges))), self.known_holes.kept_offset)
        # No power cut made those that begin where everything was synced.
        return (
            holes.kept_below(self.synced_offset) if any(each[0] < self.synced_offset for each in unvouched) else holes
        )

    def __str__(self) -> str:
        parts = [f"scanned {self.scanned_bytes} bytes behind the last checkpoint"]
        if self.torn_bytes:
            parts.append(f"dropped a torn tail of {self.torn_bytes} bytes that was never acknowledged as flushed")
        if self.put_back_bytes:
            parts.append(f"put back {self.put_back_bytes} bytes from the journal")
        if self.indexes_rebuilt:
            parts.append(f"rebuilt the indexes of {self.indexes_rebuilt} segments")
        if self.transaction_indexes_rebuilt:
            parts.append(f"found the aborted transactions of {self.transaction_indexes_rebuilt} segments anew")
        parts += self.notes
        parts += [str(damage.error()) for damage in self.damage]
        return "; ".join(parts)
