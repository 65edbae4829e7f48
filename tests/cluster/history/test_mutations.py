"""Whatever is done to any value on any replica of any clean history, it is found."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.history.checker import check
from tests.cluster.history.clean import BROKERS, CleanHistory, stored
from tests.cluster.history.events import Acked, AnyEvent, CommittedSeen, EndSeen, Read, Replica, Stored, Watermark
from tests.cluster.history.recording import in_order

LATE = 10**9


def kinds(events: list[AnyEvent]) -> set[str]:
    return {finding.kind for finding in check(in_order(events))}


clean_histories = st.builds(CleanHistory, partitions=st.integers(1, 3), length=st.integers(1, 5)).map(
    lambda clean: clean.events
)


def the_log(events: list[AnyEvent], partition: int, broker: int) -> list[Stored]:
    return [
        event
        for event in events
        if isinstance(event, Stored) and event.partition == partition and event.broker == broker
    ]


@given(clean_histories, st.data())
def test_a_value_dropped_from_a_replica_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    ack = data.draw(st.sampled_from([event for event in events if isinstance(event, Acked)]))
    assert ack.offset is not None
    broker = data.draw(st.sampled_from(BROKERS))
    spoilt: list[AnyEvent] = [
        msgspec.structs.replace(event, records=tuple(r for r in event.records if r.offset != ack.offset))
        if isinstance(event, Stored) and event.broker == broker and event.partition == ack.partition
        else event
        for event in events
    ]
    assert "acked value lost" in kinds(spoilt)


@given(clean_histories, st.data())
def test_a_log_cut_short_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    partition = data.draw(st.sampled_from(sorted({e.partition for e in events if isinstance(e, Stored)})))
    broker = data.draw(st.sampled_from(BROKERS))
    gone = data.draw(st.sampled_from(the_log(events, partition, broker)[:-1]))
    spoilt = [
        event
        for event in events
        if not (
            isinstance(event, Stored)
            and event.partition == partition
            and event.broker == broker
            and event.base_offset >= gone.base_offset
        )
    ]
    assert {"acked value lost", "replicas differ", "hole in a log"} <= kinds(spoilt)


@given(clean_histories, st.data())
def test_two_values_swapped_everywhere_are_found(events: list[AnyEvent], data: st.DataObject) -> None:
    """All replicas agree and readers saw it so: only the producers know better."""
    partition = data.draw(st.sampled_from(sorted({e.partition for e in events if isinstance(e, Stored)})))
    values = [r.value for b in the_log(events, partition, 1) for r in b.records]
    one, other = data.draw(st.lists(st.sampled_from(range(len(values))), min_size=2, max_size=2, unique=True))
    values[one], values[other] = values[other], values[one]
    spoilt: list[AnyEvent] = []
    for event in events:
        if isinstance(event, Stored) and event.partition == partition:
            part = [str(value) for value in values[event.base_offset : event.last_offset + 1]]
            spoilt.append(stored(partition, event.broker, event.base_offset, part, event.leader_epoch, event.at_ns))
        elif isinstance(event, Read) and event.partition == partition:
            spoilt.append(msgspec.structs.replace(event, value=str(values[event.offset])))
        else:
            spoilt.append(event)
    assert kinds(spoilt) & {"acked value lost", "reordered"}


@given(clean_histories, st.data())
def test_a_value_stored_again_everywhere_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    partition = data.draw(st.sampled_from(sorted({e.partition for e in events if isinstance(e, Stored)})))
    log = the_log(events, partition, 1)
    again = data.draw(st.sampled_from([r.value for b in log for r in b.records]))
    end = log[-1].last_offset + 1
    spoilt: list[AnyEvent] = [
        msgspec.structs.replace(event, high_watermark=end + 1)
        if isinstance(event, Replica) and event.partition == partition
        else event
        for event in events
    ]
    spoilt += [stored(partition, broker, end, [str(again)], log[-1].leader_epoch, LATE) for broker in BROKERS]
    assert "value doubled" in kinds(spoilt)


@given(clean_histories, st.data())
def test_one_changed_byte_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    changed = data.draw(st.sampled_from([event for event in events if isinstance(event, Stored)]))
    spoilt: list[AnyEvent] = [
        msgspec.structs.replace(event, digest=event.digest + "!") if event is changed else event for event in events
    ]
    assert kinds(spoilt) == {"replicas differ"}


@given(clean_histories, st.data())
def test_one_wrong_reading_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    wrong = data.draw(st.sampled_from([event for event in events if isinstance(event, Read)]))
    value = data.draw(st.sampled_from(["anna:0", "bert:999", "damaged"]).filter(lambda value: value != wrong.value))
    spoilt: list[AnyEvent] = [
        msgspec.structs.replace(event, value=value) if event is wrong else event for event in events
    ]
    assert "two values at one offset" in kinds(spoilt)


@given(clean_histories, st.data())
def test_any_step_back_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    ends = [e for e in events if isinstance(e, EndSeen | Watermark | CommittedSeen) and e.offset > 0]
    later = data.draw(st.sampled_from(ends))
    moved = msgspec.structs.replace(later, at_ns=later.at_ns + LATE, offset=later.offset - 1)
    if isinstance(moved, CommittedSeen):
        moved = msgspec.structs.replace(moved, asked_ns=moved.at_ns - 1)
    assert kinds([*events, moved]) & {"watermark went back", "committed offset went back"}
