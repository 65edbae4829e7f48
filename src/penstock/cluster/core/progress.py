"""How far moves have come, from the sizes of the replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.cluster.core.plan import Move
from penstock.units import SECOND_MS


@dataclass(frozen=True, slots=True)
class Progress:
    done_bytes: int
    total_bytes: int
    done_moves: int
    total_moves: int

    @property
    def share(self) -> float:
        """From 0 to 1; by bytes, and by the number of moves where there is nothing to copy."""
        if self.total_bytes:
            return self.done_bytes / self.total_bytes
        return self.done_moves / self.total_moves if self.total_moves else 1.0

    def remaining_ms(self, bytes_per_s: int) -> int:
        return -(-(self.total_bytes - self.done_bytes) * SECOND_MS // bytes_per_s)


def progress(
    moves: Iterable[Move], sizes: Mapping[tuple[str, int, int], int], under_way: Collection[tuple[str, int]]
) -> Progress:
    """`sizes` are the replicas' bytes now, by topic, partition and broker; `under_way` the partitions still moving.

    A partition that is written to while it moves has more to copy than was planned: its old replicas' size counts.
    """
    done_bytes = total_bytes = done_moves = total_moves = 0
    for move in moves:
        ended = (move.topic, move.partition) not in under_way
        total_moves += 1
        done_moves += ended
        adding = move.adding
        if not adding:
            continue
        held = [sizes[key] for node_id in move.before if (key := (move.topic, move.partition, node_id)) in sizes]
        goal = move.size_bytes // len(adding) if ended or not held else max(held)
        total_bytes += goal * len(adding)
        for node_id in adding:
            copied = sizes.get((move.topic, move.partition, node_id), 0)
            done_bytes += goal if ended else min(copied, goal)
    return Progress(done_bytes, total_bytes, done_moves, total_moves)
