"""How far a plan has come."""

from __future__ import annotations

from penstock.cluster.core.plan import Move
from penstock.cluster.core.progress import Progress, progress
from penstock.units import KIB

COPY = Move("a", 0, before=(0, 1), replicas=(0, 2), size_bytes=1000)
DOUBLE = Move("a", 1, before=(0, 1), replicas=(2, 3), size_bytes=2000)
ORDER = Move("b", 0, before=(0, 1), replicas=(1, 0), size_bytes=0)


def test_what_is_copied_counts_and_what_has_ended_is_all_there() -> None:
    sizes = {("a", 0, 0): 1000, ("a", 0, 2): 250, ("a", 1, 2): 1000, ("a", 1, 3): 1000}
    assert progress([COPY, DOUBLE, ORDER], sizes, under_way={("a", 0)}) == Progress(
        done_bytes=2250, total_bytes=3000, done_moves=2, total_moves=3
    )
    done = progress([COPY, DOUBLE, ORDER], {}, under_way=set())
    assert (done.done_bytes, done.share) == (3000, 1.0)


def test_nothing_has_been_copied_at_the_beginning() -> None:
    begun = progress([COPY, DOUBLE], {("a", 0, 0): 1000, ("a", 1, 1): 1000}, under_way={("a", 0), ("a", 1)})
    assert begun == Progress(0, 3000, 0, 2)
    assert begun.share == 0.0
    assert begun.remaining_ms(bytes_per_s=KIB) == 2930


def test_a_partition_that_grows_has_more_to_copy() -> None:
    sizes = {("a", 0, 0): 1600, ("a", 0, 1): 1500, ("a", 0, 2): 1200}
    assert progress([COPY], sizes, under_way={("a", 0)}).share == 0.75


def test_a_new_replica_that_is_ahead_of_the_sizes_is_not_beyond_the_end() -> None:
    sizes = {("a", 0, 0): 1000, ("a", 0, 2): 1100}
    assert progress([COPY], sizes, under_way={("a", 0)}).share == 1.0


def test_without_anything_to_copy_moves_are_counted() -> None:
    assert progress([ORDER, ORDER], {}, under_way={("b", 0)}).share == 0.0
    assert progress([ORDER], {}, under_way=set()).share == 1.0
    assert progress([], {}, under_way=set()).share == 1.0
