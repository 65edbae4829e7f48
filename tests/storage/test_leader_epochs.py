"""Where epochs begin and end (KIP-101, KIP-279)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.core.leader_epochs import EpochStart, LeaderEpochs

HISTORY = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=8)


def written(history: list[tuple[int, int]]) -> tuple[LeaderEpochs, list[int]]:
    """Epochs ahead by so much, with so many records each; and the epoch of each offset."""
    epochs, of_offset, epoch = LeaderEpochs(), list[int](), -1
    for step, count in history:
        epoch += step
        epochs.assign(epoch, len(of_offset))
        of_offset += [epoch] * count
    return epochs, of_offset


@given(HISTORY, st.integers(0, 30))
def test_the_end_of_an_epoch_is_where_a_larger_one_begins(history: list[tuple[int, int]], asked: int) -> None:
    epochs, of_offset = written(history)
    answer = epochs.end_offset_of(asked, len(of_offset))
    latest = epochs.latest
    if latest is None or asked > latest:
        assert answer == (-1, -1)
        return
    assert answer.end_offset == sum(epoch <= asked for epoch in of_offset)
    assert answer.epoch <= asked
    known = [start.epoch for start in epochs.starts() if start.epoch <= asked]
    assert answer.epoch == (known[-1] if known else asked)


@given(HISTORY)
def test_every_offset_knows_its_epoch(history: list[tuple[int, int]]) -> None:
    epochs, of_offset = written(history)
    assert [epochs.epoch_of(offset) for offset in range(len(of_offset))] == of_offset


@given(HISTORY, st.integers(0, 30), st.integers(0, 30))
def test_cutting_keeps_what_is_left_right(history: list[tuple[int, int]], start: int, end: int) -> None:
    epochs, of_offset = written(history)
    start, end = min(start, end, len(of_offset)), min(max(start, end), len(of_offset))
    epochs.cut_start(start)
    epochs.cut_end(end)
    assert [epochs.epoch_of(offset) for offset in range(start, end)] == of_offset[start:end]
    assert all(start <= row.start_offset < end for row in epochs.starts())


def test_an_epoch_that_wrote_nothing_leaves_no_trace() -> None:
    epochs = LeaderEpochs()
    epochs.assign(1, 0)
    epochs.assign(2, 10)
    epochs.assign(5, 10)
    assert epochs.starts() == [EpochStart(1, 0), EpochStart(5, 10)]
    epochs.assign(3, 12)
    assert epochs.latest == 5


def test_a_leader_that_wrote_nothing_takes_over_records_of_an_earlier_epoch() -> None:
    """It led with an empty log, and now follows one that has what a leader before it wrote."""
    epochs = LeaderEpochs()
    epochs.assign(1, 0)
    epochs.assign(3, 2)
    epochs.assign(2, 2)
    assert epochs.starts() == [EpochStart(1, 0), EpochStart(2, 2)]
    assert epochs.epoch_of(2) == 2
