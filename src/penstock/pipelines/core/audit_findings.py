"""What an audit finds, and what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import msgspec


class Severity(Enum):
    """An error: records are lost, unreadable or wrong, or will be. A warning: nothing is lost yet, but something is not

    as it should be, or was not looked at. A note: all is well.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_COPY_AGAIN = (
    "Take this replica out of the partition and in again by reassignments, as with kafka-reassign-partitions: it is "
    "copied anew from the leader, after another one leads. Without another replica, stop the node and restore the "
    "partition's directory from a copy; until then what is behind the damage stays readable. Check the disk."
)
_MAKE_AGAIN = (
    "Stop the node, delete this file and start the node: it is made again from the log, of which nothing is lost. "
    "Check the disk."
)


class Fault(Enum):
    DAMAGED_RECORDS = "damaged records"
    MISSING_SEGMENT = "missing segment"
    SHORT_SEGMENT = "short segment"
    UNREADABLE_FILE = "unreadable file"
    MISSING_OFFSETS = "missing offsets"
    OVERLAP = "overlapping segments"
    LEADER_EPOCHS = "wrong leader epochs"
    WRONG_CHECKPOINT = "wrong checkpoint"
    WRONG_OFFSET_INDEX = "wrong offset index"
    WRONG_TIME_INDEX = "wrong time index"
    WRONG_TRANSACTION_INDEX = "wrong transaction index"
    DAMAGED_TOPIC_ID = "damaged topic id"
    FAILED_LOG = "failed log"
    DIVERGED = "replicas differ"
    DAMAGED_INDEX = "damaged index"
    DAMAGED_CHECKPOINT = "damaged checkpoint"
    DAMAGED_SNAPSHOT = "damaged snapshot"
    NOT_AUDITED = "not audited"
    NO_INDEX = "no index yet"
    UNFINISHED = "unfinished end"

    @property
    def severity(self) -> Severity:
        return _MEANINGS[self].severity

    @property
    def do(self) -> str:
        return _MEANINGS[self].do


class _Meaning(NamedTuple):
    severity: Severity
    do: str


_MEANINGS = {
    Fault.DAMAGED_RECORDS: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.MISSING_SEGMENT: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.SHORT_SEGMENT: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.UNREADABLE_FILE: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.MISSING_OFFSETS: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.OVERLAP: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.LEADER_EPOCHS: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.WRONG_CHECKPOINT: _Meaning(Severity.ERROR, _COPY_AGAIN),
    Fault.WRONG_OFFSET_INDEX: _Meaning(Severity.ERROR, _MAKE_AGAIN),
    Fault.WRONG_TIME_INDEX: _Meaning(Severity.ERROR, _MAKE_AGAIN),
    Fault.WRONG_TRANSACTION_INDEX: _Meaning(Severity.ERROR, _MAKE_AGAIN),
    Fault.DAMAGED_TOPIC_ID: _Meaning(
        Severity.ERROR,
        "Before the node starts the next time, copy this file from another replica's node: without it the topic is not "
        "opened. Check the disk.",
    ),
    Fault.FAILED_LOG: _Meaning(
        Severity.ERROR,
        "The node takes nothing more for this log. Check the disk, then start the node again.",
    ),
    Fault.DIVERGED: _Meaning(
        Severity.ERROR,
        "Find out which replica is right (penstock log dump --records on each node), let it lead, and have the others "
        "copied again from it. Keep copies of all of them before.",
    ),
    Fault.DAMAGED_INDEX: _Meaning(Severity.WARNING, _MAKE_AGAIN),
    Fault.DAMAGED_CHECKPOINT: _Meaning(
        Severity.WARNING,
        "Nothing is lost: the node writes it anew, and a start before that reads the whole log. Check the disk.",
    ),
    Fault.DAMAGED_SNAPSHOT: _Meaning(Severity.WARNING, _MAKE_AGAIN),
    Fault.NOT_AUDITED: _Meaning(Severity.WARNING, "Nothing is known of it: see to the reason and audit it again."),
    Fault.NO_INDEX: _Meaning(Severity.NOTE, "Nothing: the node makes it when it is needed."),
    Fault.UNFINISHED: _Meaning(
        Severity.NOTE,
        "Nothing: the next start cuts it off, or puts it back from the node's journal.",
    ),
}

LOSSES = frozenset(
    {
        Fault.DAMAGED_RECORDS,
        Fault.MISSING_SEGMENT,
        Fault.SHORT_SEGMENT,
        Fault.UNREADABLE_FILE,
        Fault.MISSING_OFFSETS,
    }
)
"""Those that say which records a replica lacks."""


class Finding(msgspec.Struct, frozen=True):
    """`first_offset` and `next_offset`: which records are concerned, where that is known."""

    topic: str
    partition: int
    replica: str
    fault: Fault
    text: str
    file: str = ""
    first_offset: int = -1
    next_offset: int = -1

    @property
    def place(self) -> tuple[str, int, str, str, int]:
        """By which they are shown in order."""
        return self.topic, self.partition, self.replica, self.file, self.first_offset

    def row(self) -> dict[str, object]:
        """As programs get it."""
        known = self.first_offset >= 0
        return {
            "severity": self.fault.severity.value,
            "fault": self.fault.value,
            "topic": self.topic,
            "partition": self.partition,
            "replica": self.replica,
            "file": self.file or None,
            "first_offset": self.first_offset if known else None,
            "next_offset": self.next_offset if known else None,
            "what": self.text,
            "do": self.fault.do,
        }


def has_faults(findings: Iterable[Finding]) -> bool:
    return any(finding.fault.severity is not Severity.NOTE for finding in findings)
