"""Each kind of finding is found where it is, and nothing is found where nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.history.checker import check
from tests.cluster.history.clean import GROUP, TOPIC, CleanHistory
from tests.cluster.history.events import (
    Acked,
    AnyEvent,
    Committed,
    CommittedSeen,
    Deleted,
    EndSeen,
    Failed,
    Leading,
    Owned,
    Read,
    Replica,
    Sent,
    Stored,
    StoredRecord,
    Watermark,
)
from tests.cluster.history.recording import Recorder, in_order, read_events

LATE = 10**9
CLEAN = CleanHistory().events


def kinds(events: list[AnyEvent]) -> set[str]:
    return {finding.kind for finding in check(in_order(events))}


def sent(number: int, *, producer: str = "p", idempotent: bool = True, key: str | None = None) -> Sent:
    return Sent(at_ns=number, topic="t", partition=0, producer=producer, number=number, idempotent=idempotent, key=key)


def acked(number: int, offset: int | None, producer: str = "p") -> Acked:
    return Acked(at_ns=100 + number, topic="t", partition=0, producer=producer, number=number, offset=offset)


def read(offset: int, value: str, reader: str = "r", at_ns: int = 200) -> Read:
    return Read(at_ns=at_ns + offset, topic="t", partition=0, reader=reader, offset=offset, value=value)


def replica(
    broker: int, watermark: int, *, log_start: int = 0, in_sync: bool = True, compacted: bool = False
) -> Replica:
    return Replica(
        at_ns=LATE,
        topic="t",
        partition=0,
        broker=broker,
        log_start=log_start,
        high_watermark=watermark,
        in_sync=in_sync,
        compacted=compacted,
    )


def batch(
    broker: int, base: int, *values: str | None, epoch: int = 0, digest: str | None = None, key: str = ""
) -> Stored:
    return Stored(
        at_ns=LATE + 1,
        topic="t",
        partition=0,
        broker=broker,
        base_offset=base,
        last_offset=base + len(values) - 1,
        leader_epoch=epoch,
        digest=digest or f"{base}{values}",
        records=tuple(StoredRecord(base + n, value, key or None) for n, value in enumerate(values)),
    )


def leading(leader: int, epoch: int, observer: str, at_ns: int) -> Leading:
    return Leading(at_ns=at_ns, topic="t", partition=0, observer=observer, leader=leader, leader_epoch=epoch)


def test_a_clean_history_has_no_findings() -> None:
    assert check(CLEAN) == []


def test_nothing_recorded_is_nothing_found() -> None:
    assert check([]) == []


ACKED: list[AnyEvent] = [sent(0), sent(1), acked(0, 0), acked(1, 1)]

SPOILT: dict[str, tuple[str, list[AnyEvent]]] = {
    "an in-sync replica lacks an acked value": (
        "acked value lost",
        [*ACKED, replica(1, 2), batch(1, 0, "p:0", "p:1"), replica(2, 1), batch(2, 0, "p:0")],
    ),
    "another value stands at the acked offset": (
        "acked value lost",
        [*ACKED, sent(2), replica(1, 2), batch(1, 0, "p:0", "p:2")],
    ),
    "acked without an offset and nowhere": (
        "acked value lost",
        [sent(0), acked(0, None), replica(1, 0)],
    ),
    "no replica is in sync": ("acked value lost", [*ACKED, replica(1, 2, in_sync=False), batch(1, 0, "p:0", "p:1")]),
    "compaction took the newest value of a key": (
        "acked value lost",
        [
            sent(0, key="a"),
            sent(1, key="b"),
            acked(0, 0),
            acked(1, 1),
            replica(1, 2, compacted=True),
            batch(1, 0, "p:0", key="a"),
        ],
    ),
    "two readers get two values": ("two values at one offset", [*ACKED, read(0, "p:0"), read(0, "p:1", "s")]),
    "one reader gets two values": ("two values at one offset", [*ACKED, read(0, "p:0"), read(0, "p:1", at_ns=300)]),
    "stored is not what was read": (
        "two values at one offset",
        [*ACKED, read(0, "p:1"), replica(1, 2), batch(1, 0, "p:0", "p:1")],
    ),
    "what was read is cut off": (
        "read value lost",
        [sent(0), sent(1), read(0, "p:0"), read(1, "p:1"), replica(1, 1), batch(1, 0, "p:0")],
    ),
    "read but never sent": ("value that nobody sent", [sent(0), read(0, "p:9")]),
    "a refused value is read": (
        "failed value read",
        [sent(0), Failed(at_ns=50, topic="t", partition=0, producer="p", number=0), read(0, "p:0")],
    ),
    "a refused value is stored": (
        "failed value read",
        [
            sent(0),
            Failed(at_ns=50, topic="t", partition=0, producer="p", number=0),
            replica(1, 1),
            batch(1, 0, "p:0"),
        ],
    ),
    "an idempotent value is there twice": ("value doubled", [sent(0), replica(1, 2), batch(1, 0, "p:0", "p:0")]),
    "an idempotent value is read twice": ("value doubled", [sent(0), read(0, "p:0"), read(5, "p:0")]),
    "acked at one offset, read at another": ("value doubled", [sent(0), acked(0, 3), read(4, "p:0")]),
    "stored in another order": ("reordered", [sent(0), sent(1), replica(1, 2), batch(1, 0, "p:1", "p:0")]),
    "acked in another order": ("reordered", [sent(0), sent(1), acked(0, 1), acked(1, 0)]),
    "two brokers lead one epoch": ("two leaders in one epoch", [leading(1, 4, "1", 10), leading(2, 4, "2", 11)]),
    "a broker moves the watermark of another's epoch": (
        "two leaders in one epoch",
        [
            leading(1, 4, "1", 10),
            Watermark(at_ns=11, topic="t", partition=0, broker=2, leader_epoch=4, offset=7),
        ],
    ),
    "an observer sees an older epoch": ("epoch went back", [leading(1, 4, "1", 10), leading(2, 3, "1", 11)]),
    "epochs fall inside a log": (
        "epoch went back",
        [sent(0), sent(1), replica(1, 2), batch(1, 0, "p:0", epoch=2), batch(1, 1, "p:1", epoch=1)],
    ),
    "a reader sees the end go back": (
        "watermark went back",
        [EndSeen(at_ns=n, topic="t", partition=0, reader="r", offset=offset) for n, offset in ((1, 7), (2, 6))],
    ),
    "a leader's watermark goes back": (
        "watermark went back",
        [
            Watermark(at_ns=n, topic="t", partition=0, broker=1, leader_epoch=4, offset=offset)
            for n, offset in ((1, 7), (2, 6))
        ],
    ),
    "the end that a reader saw is never reached again": (
        "watermark went back",
        [EndSeen(at_ns=1, topic="t", partition=0, reader="r", offset=2), replica(1, 1), batch(1, 0, "x:0")],
    ),
    "a leader had committed more than there is in the end": (
        "watermark went back",
        [
            Watermark(at_ns=1, topic="t", partition=0, broker=2, leader_epoch=4, offset=2),
            *(replica(1, 1), batch(1, 0, "x:0")),
        ],
    ),
    "replicas differ in one byte": (
        "replicas differ",
        [*ACKED, *(e for n in (1, 2) for e in (replica(n, 2), batch(n, 0, "p:0", "p:1", digest=f"digest-{n}")))],
    ),
    "replicas are cut into batches differently": (
        "replicas differ",
        [
            *ACKED,
            *(replica(1, 2), batch(1, 0, "p:0", "p:1")),
            *(replica(2, 2), batch(2, 0, "p:0"), batch(2, 1, "p:1")),
        ],
    ),
    "compacted replicas differ in the newest value": (
        "replicas differ",
        [
            *(replica(1, 2, compacted=True), batch(1, 0, "x:0", key="a")),
            *(replica(2, 2, compacted=True), batch(2, 1, "x:1", key="a")),
        ],
    ),
    "a log begins later than allowed": ("log start moved", [replica(1, 5, log_start=5)]),
    "a log has a hole": ("hole in a log", [replica(1, 4), batch(1, 0, "x:0"), batch(1, 3, "x:3")]),
    "a log ends below its watermark": ("hole in a log", [replica(1, 4), batch(1, 0, "x:0")]),
    "a commit is forgotten": (
        "committed offset went back",
        [
            Committed(at_ns=10, topic="t", partition=0, group="g", member="m", offset=7),
            CommittedSeen(at_ns=12, asked_ns=11, topic="t", partition=0, group="g", reader="r", offset=-1),
        ],
    ),
    "a commit goes back between two looks": (
        "committed offset went back",
        [
            CommittedSeen(at_ns=n + 1, asked_ns=n, topic="t", partition=0, group="g", reader="r", offset=offset)
            for n, offset in ((10, 7), (20, 6))
        ],
    ),
    "a partition has two owners": (
        "two owners of a partition",
        [Owned(at_ns=n, topic="t", partition=0, group="g", member=f"m{n}", generation=3) for n in (1, 2)],
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_it_is_found(name: str) -> None:
    kind, events = SPOILT[name]
    findings = check(in_order(events))
    assert kind in {finding.kind for finding in findings}
    found = next(finding for finding in findings if finding.kind == kind)
    assert found.events, "a finding names the events that show it"
    assert kind in str(found)


def test_a_group_that_skips_a_value_is_found() -> None:
    skipped = next(event for event in CLEAN if isinstance(event, Read) and event.group == GROUP)
    assert kinds([event for event in CLEAN if event is not skipped]) == {"group skipped a value"}


ALLOWED: dict[str, list[AnyEvent]] = {
    "a replica out of sync may lack the newest": [
        *ACKED,
        *(replica(1, 2), batch(1, 0, "p:0", "p:1")),
        *(replica(2, 2, in_sync=False), batch(2, 0, "p:0")),
    ],
    "a replica out of sync may hold what others cut off": [
        *ACKED,
        sent(2),
        *(replica(1, 2), batch(1, 0, "p:0", "p:1")),
        *(replica(2, 2, in_sync=False), batch(2, 0, "p:0", "p:2")),
    ],
    "beyond the watermark replicas may differ": [
        *ACKED,
        sent(2),
        *(replica(1, 2), batch(1, 0, "p:0", "p:1"), batch(1, 2, "p:2")),
        *(replica(2, 2), batch(2, 0, "p:0", "p:1")),
    ],
    "deleted records are no loss": [
        *ACKED,
        Deleted(at_ns=5, topic="t", partition=0, before_offset=1),
        *(replica(1, 2, log_start=1), batch(1, 1, "p:1")),
        *(replica(2, 2), batch(2, 0, "p:0"), batch(2, 1, "p:1")),
    ],
    "without idempotence a value may be there twice": [
        sent(0, idempotent=False),
        *(replica(1, 2), batch(1, 0, "p:0", "p:0")),
    ],
    "without idempotence what was given up may come late": [
        *(sent(n, idempotent=False) for n in (0, 1)),
        *(replica(1, 2), batch(1, 0, "p:1", "p:0")),
    ],
    "compaction may take what has a newer value": [
        sent(0, key="a"),
        sent(1, key="a"),
        acked(0, 0),
        acked(1, 1),
        *(replica(1, 2, compacted=True), batch(1, 1, "p:1", key="a")),
        *(replica(2, 2, compacted=True), batch(2, 0, "p:0", "p:1", key="a")),
    ],
    "a tombstone may be gone on one replica": [
        *(replica(1, 2, compacted=True), batch(1, 1, None, key="a")),
        replica(2, 2, compacted=True),
    ],
    "a commit under way need not be seen": [
        Committed(at_ns=12, topic="t", partition=0, group="g", member="m", offset=7),
        CommittedSeen(at_ns=13, asked_ns=11, topic="t", partition=0, group="g", reader="r", offset=6),
    ],
    "two looks at once may be answered in any order": [
        CommittedSeen(at_ns=20, asked_ns=10, topic="t", partition=0, group="g", reader="r", offset=7),
        CommittedSeen(at_ns=21, asked_ns=11, topic="t", partition=0, group="g", reader="s", offset=6),
    ],
    "another broker may know of an older epoch still": [leading(1, 4, "1", 10), leading(2, 3, "2", 11)],
    "a leader that starts anew looks for its watermark": [
        Watermark(at_ns=n, topic="t", partition=0, broker=1, leader_epoch=4, offset=10 - n, life=n) for n in (1, 2)
    ],
    "each leader has a watermark of its own": [
        Watermark(at_ns=n, topic="t", partition=0, broker=n, leader_epoch=n, offset=10 - n) for n in (1, 2)
    ],
}


@pytest.mark.parametrize("name", ALLOWED)
def test_it_is_no_finding(name: str) -> None:
    assert check(in_order(ALLOWED[name])) == []


def test_many_processes_record_and_one_checks(tmp_path: Path) -> None:
    with Recorder(tmp_path, "one") as one, Recorder(tmp_path, "two") as two:
        for n, event in enumerate(CLEAN):
            (one if n % 2 else two).record(event)
    assert read_events(tmp_path) == CLEAN


def test_the_last_line_of_a_killed_process_does_not_count(tmp_path: Path) -> None:
    with Recorder(tmp_path, "one") as one:
        one.record(*CLEAN[:3])
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-5])
    assert read_events(tmp_path) == CLEAN[:2]


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    with Recorder(tmp_path, "one") as one:
        one.record(CLEAN[0])
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes() + b'{"event":"nonsense"}\n')
    with pytest.raises(ValueError, match=r"one.history.jsonl:2: .*nonsense"):
        read_events(tmp_path)


def test_histories_of_other_topics_do_not_mix() -> None:
    other: list[AnyEvent] = [read(0, "somebody:0"), replica(1, 1), batch(1, 0, "somebody:0")]
    assert TOPIC != "t"
    assert kinds([*CLEAN, *other]) == set()
