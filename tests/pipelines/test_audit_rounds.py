"""What is read again, and what of all that was found is told."""

from __future__ import annotations

from collections.abc import Collection

from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_plan import Name
from penstock.pipelines.core.audit_report import AuditReport, PartitionOutcome
from penstock.pipelines.core.audit_rounds import settled

ONE, OTHER = ("orders", 0), ("orders", 1)


def fault(name: Name, kind: Fault = Fault.DAMAGED_RECORDS, file: str = "a.log") -> Finding:
    return Finding(*name, "broker 1", kind, "it is so", file)


def sound() -> PartitionOutcome:
    return PartitionOutcome()


def faulty(*findings: Finding) -> PartitionOutcome:
    return PartitionOutcome(findings=list(findings))


def changed(*findings: Finding) -> PartitionOutcome:
    return PartitionOutcome(has_changed=True, findings=list(findings))


def silent() -> PartitionOutcome:
    return PartitionOutcome(silent={"broker 2": "it gives no answer"})


class Rounds:
    """Each reads what the next of these dicts says; the last one for ever."""

    def __init__(self, *rounds: dict[Name, PartitionOutcome], others: tuple[list[Finding], ...] = ()) -> None:
        self._rounds = list(rounds)
        self._others = others
        self.asked: list[set[Name]] = []

    def run(self) -> AuditReport:
        return settled(self._read(0), self._again)

    def _again(self, names: Collection[Name]) -> AuditReport:
        self.asked.append(set(names))
        return self._read(len(self.asked))

    def _read(self, number: int) -> AuditReport:
        others = list(self._others[number]) if number < len(self._others) else []
        return AuditReport(dict(self._rounds[min(number, len(self._rounds) - 1)]), others)


def test_what_is_sound_is_read_once() -> None:
    rounds = Rounds({ONE: sound(), OTHER: sound()})
    assert rounds.run().findings == [] and rounds.asked == []


def test_a_note_is_no_reason_to_read_again() -> None:
    rounds = Rounds({ONE: faulty(fault(ONE, Fault.NO_INDEX))})
    assert len(rounds.run().findings) == 1 and rounds.asked == []


def test_a_fault_is_told_when_it_is_found_twice() -> None:
    rounds = Rounds({ONE: faulty(fault(ONE)), OTHER: sound()})
    assert rounds.run().findings == [fault(ONE)]
    assert rounds.asked == [{ONE}]


def test_a_fault_that_is_not_found_again_was_none() -> None:
    rounds = Rounds({ONE: faulty(fault(ONE)), OTHER: sound()}, {ONE: sound()})
    assert rounds.run().findings == []


def test_another_fault_than_before_is_looked_for_again() -> None:
    first, second = fault(ONE, file="a.log"), fault(ONE, file="b.log")
    rounds = Rounds({ONE: faulty(first)}, {ONE: faulty(second)}, {ONE: sound()})
    assert rounds.run().findings == []
    rounds = Rounds({ONE: faulty(first)}, {ONE: faulty(second)}, {ONE: faulty(second)})
    assert rounds.run().findings == [second]


def test_faults_of_a_log_that_changes_all_the_time_are_told_if_they_stay() -> None:
    passing = [fault(ONE, file=f"{number}.log") for number in range(4)]
    rounds = Rounds(*({ONE: changed(fault(ONE, file="z.log"), each)} for each in passing))
    told = rounds.run().findings
    assert {(each.fault, each.file) for each in told} == {(Fault.DAMAGED_RECORDS, "z.log"), (Fault.NOT_AUDITED, "")}
    assert rounds.asked == [{ONE}] * 3


def test_a_log_that_changes_is_read_again_until_it_does_not() -> None:
    rounds = Rounds({ONE: changed()}, {ONE: changed()}, {ONE: sound()})
    assert rounds.run().findings == [] and rounds.asked == [{ONE}] * 2
    (finding,) = Rounds({ONE: changed()}).run().findings
    assert (finding.fault, finding.topic, finding.partition) == (Fault.NOT_AUDITED, *ONE)


def test_a_topic_that_is_deleted_meanwhile_is_no_fault() -> None:
    report = Rounds({ONE: changed(), OTHER: sound()}, {}).run()
    assert report.findings == [] and set(report.partitions) == {OTHER}


def test_a_broker_that_restarts_is_no_fault_and_one_that_stays_silent_is_told_of() -> None:
    assert Rounds({ONE: silent()}, {ONE: sound()}).run().findings == []
    (finding,) = Rounds({ONE: silent()}).run().findings
    assert (finding.fault, finding.replica) == (Fault.NOT_AUDITED, "broker 2")


def test_what_is_told_of_a_broker_is_told_once() -> None:
    first, second = (Finding("", -1, "broker 3", Fault.NOT_AUDITED, text) for text in ("of 9", "of 1"))
    rounds = Rounds({ONE: changed()}, {ONE: sound()}, others=([first], [second]))
    assert rounds.run().findings == [first]
