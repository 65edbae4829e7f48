"""Each anomaly of transactions is found in any clean history that has it, and a clean one has none."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cluster.history.checker import check
from tests.cluster.history.clean_transactions import (
    AUDIT,
    INPUTS,
    OUTPUTS,
    WORKERS,
    CleanTransactions,
    Fate,
    reading,
)
from tests.cluster.history.events import (
    Acked,
    AnyEvent,
    CommitBegun,
    Drained,
    Read,
    Replica,
    Sent,
    Stored,
    StoredRecord,
    TransactionEnded,
    value_name,
)
from tests.cluster.history.recording import in_order

# Offsets that nothing else has.
FAR = 10**6
LATE = 10**9

clean_histories = st.builds(
    CleanTransactions, fates=st.lists(st.sampled_from(Fate), max_size=8), size=st.integers(2, 4)
).map(lambda clean: clean.events)


def kinds(events: list[AnyEvent]) -> set[str]:
    return {finding.kind for finding in check(in_order(events))}


def outputs(events: list[AnyEvent], *, shown: bool) -> list[Sent]:
    """Values in transactions that a reader of committed records gets, or does not."""
    read = {event.value for event in events if isinstance(event, Read) and event.group == AUDIT}
    sent = [event for event in events if isinstance(event, Sent) and event.transaction]
    return [event for event in sent if (value_name(event.producer, event.number) in read) is shown]


def without_reading(events: list[AnyEvent], *hidden: Sent) -> list[AnyEvent]:
    gone = {value_name(sent.producer, sent.number) for sent in hidden}
    return [event for event in events if not (isinstance(event, Read) and event.value in gone)]


def told(events: list[AnyEvent], transaction: str) -> set[type[AnyEvent]]:
    return {
        type(event)
        for event in events
        if isinstance(event, CommitBegun | TransactionEnded) and event.transaction == transaction
    }


@given(clean_histories)
def test_a_clean_history_has_no_findings(events: list[AnyEvent]) -> None:
    assert check(events) == []


@given(clean_histories, st.data())
def test_a_value_that_is_not_shown_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    """Lost if its transaction was committed; torn whether anybody knows that or not."""
    hidden = data.draw(st.sampled_from(outputs(events, shown=True)))
    found = kinds(without_reading(events, hidden))
    assert {"torn transaction", "input lost"} <= found
    assert ("committed value lost" in found) is (TransactionEnded in told(events, hidden.transaction))


@given(clean_histories, st.data())
def test_a_whole_transaction_that_is_not_shown_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(outputs(events, shown=True)))
    all_of_it = [sent for sent in outputs(events, shown=True) if sent.transaction == one.transaction]
    found = kinds(without_reading(events, *all_of_it))
    assert "input lost" in found and "torn transaction" not in found
    assert ("committed value lost" in found) is (TransactionEnded in told(events, one.transaction))


@given(clean_histories, st.data())
def test_an_input_that_nobody_did_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    """Its offset was committed, and no transaction had it."""
    number = sum(isinstance(event, Acked) for event in events)
    acked = Acked(at_ns=1, topic=INPUTS, partition=0, producer="p", number=number, offset=number)
    sent = Sent(at_ns=0, topic=INPUTS, partition=0, producer="p", number=number)
    read = Read(at_ns=2, topic=INPUTS, partition=0, reader="w", group=WORKERS, offset=number, value=f"p:{number}")
    known: list[AnyEvent] = data.draw(st.sampled_from([[sent, acked, read], [sent, read]]))
    assert kinds([*events, *known]) == {"input lost"}


@given(clean_histories, st.data())
def test_an_aborted_value_that_is_shown_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    hidden = outputs(events, shown=False)
    aborted = [sent for sent in hidden if told(events, sent.transaction) != {CommitBegun}]
    assume(aborted)
    seen = data.draw(st.sampled_from(aborted))
    found = kinds([*events, reading(seen, FAR, LATE)])
    assert {"aborted value read", "torn transaction", "input done twice"} <= found


@given(clean_histories, st.data())
def test_an_input_whose_outputs_are_both_shown_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    """Nobody heard what became of the first attempt, so only the second one says that it is too much."""
    unheard = [sent for sent in outputs(events, shown=False) if told(events, sent.transaction) == {CommitBegun}]
    assume(unheard)
    one = data.draw(st.sampled_from(unheard))
    again = [sent for sent in unheard if sent.transaction == one.transaction]
    shown = [reading(sent, FAR + number, LATE) for number, sent in enumerate(again)]
    assert kinds([*events, *shown]) == {"input done twice"}


@given(clean_histories, st.data())
def test_a_value_that_is_shown_before_its_commit_is_found(events: list[AnyEvent], data: st.DataObject) -> None:
    early = data.draw(st.sampled_from([e for e in events if isinstance(e, Read) and e.group == AUDIT]))
    sent = next(s for s in outputs(events, shown=True) if value_name(s.producer, s.number) == early.value)
    begun = next(e for e in events if isinstance(e, CommitBegun) and e.transaction == sent.transaction)
    moment = data.draw(st.integers(sent.at_ns, begun.at_ns - 1))
    spoilt: list[AnyEvent] = [
        msgspec.structs.replace(event, at_ns=moment) if event is early else event for event in events
    ]
    assert kinds(spoilt) == {"precommitted value read"}


def sent_in(transaction: str, number: int, partition: int = 0) -> Sent:
    where = {"topic": OUTPUTS, "partition": partition}
    return Sent(at_ns=number, **where, producer="w", number=number, transaction=transaction)  # type: ignore[arg-type]


DRAINED = Drained(at_ns=LATE, group=AUDIT, topic=OUTPUTS)
ENDED: list[AnyEvent] = [
    CommitBegun(at_ns=10, transaction="t"),
    TransactionEnded(at_ns=11, transaction="t", committed=True),
]

ALLOWED: dict[str, list[AnyEvent]] = {
    "who has not read everything may lack a part": [
        *(sent_in("t", 0), sent_in("t", 1), *ENDED),
        reading(sent_in("t", 0), 0, 20),
    ],
    "what others than readers of committed records get may be aborted": [
        sent_in("t", 0),
        msgspec.structs.replace(reading(sent_in("t", 0), 0, 5), committed_only=False, group=""),
        TransactionEnded(at_ns=11, transaction="t", committed=False),
        DRAINED,
    ],
    "aborted values are in the log and were acknowledged": [
        sent_in("t", 0),
        Acked(at_ns=5, topic=OUTPUTS, partition=0, producer="w", number=0, offset=0),
        TransactionEnded(at_ns=11, transaction="t", committed=False),
        DRAINED,
        Replica(at_ns=LATE, topic=OUTPUTS, partition=0, broker=1, log_start=0, high_watermark=2),
        Stored(
            at_ns=LATE,
            topic=OUTPUTS,
            partition=0,
            broker=1,
            base_offset=0,
            last_offset=0,
            leader_epoch=0,
            digest="values",
            records=(StoredRecord(0, "w:0"),),
        ),
        Stored(
            at_ns=LATE,
            topic=OUTPUTS,
            partition=0,
            broker=1,
            base_offset=1,
            last_offset=1,
            leader_epoch=0,
            digest="marker",
        ),
    ],
    "one that nobody answered may be there": [
        *(sent_in("t", 0), sent_in("t", 1, partition=1), CommitBegun(at_ns=10, transaction="t")),
        *(reading(sent_in("t", number, partition=number), 0, 20) for number in (0, 1)),
        DRAINED,
    ],
    "one that nobody answered may not be there": [
        *(sent_in("t", 0), sent_in("t", 1, partition=1), CommitBegun(at_ns=10, transaction="t")),
        DRAINED,
    ],
}


@pytest.mark.parametrize("name", ALLOWED)
def test_it_is_no_finding(name: str) -> None:
    assert check(in_order(ALLOWED[name])) == []
