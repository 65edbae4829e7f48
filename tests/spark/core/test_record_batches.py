"""Which batches of an answer a reader may see, against a log whose transactions are all known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.spark.core.record_batches import walk
from penstock.wire.batch import stamp
from penstock.wire.control import Marker, build_marker
from penstock.wire.fetched import AbortedTransaction
from penstock.wire.records import Record, build_batch


class Step(NamedTuple):
    """What a producer does: writes some records in a transaction or plain, or ends its transaction."""

    producer: int
    kind: str
    records: int


class Log(NamedTuple):
    batches: list[bytearray]
    # First offset of each batch that holds records, and whether a reader of committed records sees it.
    visible: list[tuple[int, bool]]
    aborted: list[AbortedTransaction]
    end: int


steps = st.builds(Step, st.integers(1, 3), st.sampled_from(["in", "in", "plain", "commit", "abort"]), st.integers(1, 4))


def written(plan: Sequence[Step]) -> Log:
    """All transactions have ended: readers of committed records are given nothing behind one that is open."""
    offset = 0
    batches: list[bytearray] = []
    owned: list[tuple[int, tuple[int, int] | None]] = []
    began: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    endings = [Step(producer, "abort", 1) for producer in (1, 2, 3)]
    for step in [*plan, *endings]:
        if step.kind in ("commit", "abort"):
            if step.producer not in began:
                continue
            batch = build_marker(step.producer, 0, Marker(step.kind == "commit", 0), 0)
            stamp(batch, offset, 0)
            first = began.pop(step.producer)
            if step.kind == "abort":
                aborted.append(AbortedTransaction(step.producer, first))
            batches.append(batch)
            offset += 1
            continue
        in_transaction = step.kind == "in"
        first = began.setdefault(step.producer, offset) if in_transaction else -1
        records = [Record(offset + at, 0, None, b"v") for at in range(step.records)]
        extra = {"producer_id": step.producer, "producer_epoch": 0, "is_transactional": True} if in_transaction else {}
        batches.append(build_batch(records, base_offset=offset, leader_epoch=0, **extra))  # type: ignore[arg-type]
        owned.append((offset, (step.producer, first) if in_transaction else None))
        offset += step.records
    gone = {(producer, first) for producer, first in aborted}
    return Log(batches, [(at, owner not in gone) for at, owner in owned], aborted, offset)


@given(plan=st.lists(steps, max_size=20), data=st.data())
def test_only_what_was_committed_is_seen(plan: list[Step], data: st.DataObject) -> None:
    log = written(plan)
    position = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(position, log.end))
    records = bytearray().join(log.batches)
    seen = walk(memoryview(records), position, end, log.aborted)
    assert seen.next_offset == end
    offsets = {header.base_offset for header, _, _ in seen.batches}
    assert offsets == {
        header.base_offset
        for header, _, _ in walk(memoryview(records), 0, log.end, None).batches
        if position < end
        and dict(log.visible)[header.base_offset]
        and header.next_offset > position
        and header.base_offset < end
    }
    everything = walk(memoryview(records), 0, log.end, None)
    assert [header.base_offset for header, _, _ in everything.batches] == [at for at, _ in log.visible]
    assert all(records[at : at + 8] == header.base_offset.to_bytes(8, "big") for header, at, _ in everything.batches)


@given(st.lists(steps, min_size=1, max_size=6), st.data())
def test_a_last_batch_that_was_cut_off_is_left_for_the_next_answer(plan: list[Step], data: st.DataObject) -> None:
    log = written([*plan, Step(1, "plain", 1)])
    records = bytearray().join(log.batches)
    cut = memoryview(records)[: data.draw(st.integers(0, len(records)))]
    first = walk(cut, 0, log.end, log.aborted)
    again = walk(memoryview(records), first.next_offset, log.end, log.aborted)
    whole = walk(memoryview(records), 0, log.end, log.aborted)
    assert [*first.batches, *again.batches] == whole.batches


def test_bytes_that_are_no_batches() -> None:
    with pytest.raises(PenstockError, match="what follows offset 5 is no batch"):
        walk(memoryview(b"\xff" * 100), 5, 9, None)
    old = bytearray(build_batch([Record(5, 0, None, b"v")], base_offset=5))
    old[16] = 1
    with pytest.raises(PenstockError, match="offset 5 is stored in record format 1"):
        walk(memoryview(old), 5, 9, None)
    backwards = bytearray(build_batch([Record(5, 0, None, b"v")], base_offset=5))
    backwards[0] = 0xFF
    with pytest.raises(PenstockError, match="ends before itself"):
        walk(memoryview(backwards), 5, 9, None)
