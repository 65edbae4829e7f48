"""Background check of what lies on disk: bits rot in segments that nobody reads, until the only good copy is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.storage.core.damage import Damage
from penstock.storage.core.scan import ANY_EPOCH, valid_batches
from penstock.storage.segment import Segment
from penstock.storage.unasked import UnaskedFile, to_scan
from penstock.units import MIB

# A fraction of a second on a slow disk: what else wants the disk or the interpreter is not held up for longer.
STEP_BYTES = MIB


class Found(NamedTuple):
    """Damage that was not known before. The segment answers reads of it with an error from now on."""

    path: str
    damage: Damage


class ScrubStep(NamedTuple):
    bytes_checked: int
    found: list[Found]


class Scrub:
    """One walk over closed segments, oldest first. The caller decides on the pace.

    Made on the event loop's thread from a log's closed segments; `step` blocks and belongs on a pool thread. Segments
    that are deleted, truncated or replaced meanwhile are left out.
    """

    def __init__(self, closed: Sequence[Segment]) -> None:
        self._waiting = [(segment, segment.truncations) for segment in reversed(closed)]
        self._file: UnaskedFile | None = None
        self._position = 0
        self._expected_offset = 0
        self._epoch = ANY_EPOCH

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def step(self, max_bytes: int = STEP_BYTES) -> ScrubStep:
        """Check about so many bytes more (at least one batch). Raises OSError if the disk cannot read at all."""
        checked = 0
        found: list[Found] = []
        while self._waiting and checked < max_bytes:
            segment, truncations = self._waiting[-1]
            if not self._open(segment) or segment.truncations != truncations:
                self._next_segment()
                continue
            before = self._position
            self._walk(segment, max_bytes - checked)
            checked += self._position - before
            if self._position >= segment.size:
                self._next_segment()
            elif checked < max_bytes and segment.truncations == truncations:
                found += self._pass_damage(segment)
        return ScrubStep(checked, found)

    def _open(self, segment: Segment) -> bool:
        if self._file is None:
            try:
                self._file = to_scan(segment)
            except FileNotFoundError:
                return False
            self._position, self._expected_offset, self._epoch = 0, segment.base_offset, ANY_EPOCH
        return True

    def _next_segment(self) -> None:
        self._waiting.pop()
        self._file = None

    def _walk(self, segment: Segment, max_bytes: int) -> None:
        """On until so many bytes are checked, the segment ends, or a batch is not valid."""
        assert self._file is not None
        start = self._position
        batches = valid_batches(
            self._file,
            start,
            segment.sound_end(start),
            self._expected_offset,
            epoch=self._epoch,
            chunk_bytes=max_bytes,
            gap_at_end=segment.gaps or bool(segment.damage),
            end_offset=segment.next_offset,
        )
        for position, header in batches:
            self._position = position + header.size
            self._expected_offset, self._epoch = header.next_offset, header.leader_epoch
            if self._position - start >= max_bytes:
                return

    def _pass_damage(self, segment: Segment) -> list[Found]:
        """Step over the damage that begins here; tell of it if it is news."""
        known = next((damage for damage in segment.damage if damage.position == self._position), None)
        damage = known or segment.diagnose(self._position, self._expected_offset)
        self._position, self._expected_offset, self._epoch = damage.end_position, damage.next_offset, ANY_EPOCH
        if known is not None:
            return []
        segment.add_damage(damage)
        return [Found(segment.path, damage)]
