"""Logs are in use while they are read: which are read again, and what of all that was found is told."""

from __future__ import annotations

from collections.abc import Callable, Collection

from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_plan import Name
from penstock.pipelines.core.audit_report import AuditReport, PartitionOutcome, known_by

# How often a log is read at most: more would not help where it changes all the time.
_MOST_ROUNDS = 4
_NOT_READ = "it was truncated, compacted, deleted or moved whenever it was read"
_NOT_AGAIN = "what was found in it was not found again, but something else, whenever it was read"

# Reads these partitions anew. Those that it does not tell of are no more.
ReadAgain = Callable[[Collection[Name]], AuditReport]


def settled(first: AuditReport, read_again: ReadAgain) -> AuditReport:
    """`first`: of everything, once. A fault is told when it is found twice in a row, so that what was met in the middle

    of a change is not taken for one; and a log that has changed, or whose broker was silent, is read again.
    """
    partitions = dict(first.partitions)
    seen: dict[Name, PartitionOutcome] = {}
    others = first.others
    for _ in range(1, _MOST_ROUNDS):
        doubted = [name for name, outcome in partitions.items() if _is_doubted(outcome, seen.get(name))]
        if not doubted:
            break
        again = read_again(frozenset(doubted))
        for name in doubted:
            seen[name] = partitions.pop(name)
            if name in again.partitions:
                partitions[name] = again.partitions[name]
        others = list({each.replica: each for each in (*again.others, *first.others)}.values())
    for name, outcome in partitions.items():
        if _is_doubted(outcome, seen.get(name)):
            _tell_doubt(name, outcome, seen[name])
    return AuditReport(partitions, others)


def _is_doubted(outcome: PartitionOutcome, before: PartitionOutcome | None) -> bool:
    return not outcome.is_complete or not outcome.faults <= (set() if before is None else before.faults)


def _tell_doubt(name: Name, outcome: PartitionOutcome, before: PartitionOutcome) -> None:
    outcome.findings = [each for each in outcome.findings if known_by(each) in before.faults]
    topic, partition = name
    for replica, why in sorted(outcome.silent.items()):
        outcome.findings.append(Finding(topic, partition, replica, Fault.NOT_AUDITED, why))
    if outcome.has_changed or not outcome.silent:
        why = _NOT_READ if outcome.has_changed else _NOT_AGAIN
        outcome.findings.append(Finding(topic, partition, "", Fault.NOT_AUDITED, why))
