"""A group member in a process of its own, so that a crash is a crash: no goodbye, no closed socket by choice.

The programs, in whatever language, speak one line protocol. They get a JSON object as their only argument
(`Membership`), print one JSON object per line (`event` is `assigned`, `revoked`, `record` or `error`), commit what they
have printed, and leave the group when their input ends. So none of them outlives the test, however that ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.interop.membership import Membership
from tests.interop.server import Server
from tests.interop.waiting import eventually

Partition = tuple[str, int]


@dataclass
class _Seen:
    """What the reader thread has understood so far; replaced wholesale or appended to, so no lock is needed."""

    events: list[dict[str, Any]] = field(default_factory=list)
    assignment: frozenset[Partition] | None = None
    values: list[str] = field(default_factory=list)
    revoked: list[Partition] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Member:
    """`command` starts a program that speaks the line protocol."""

    def __init__(self, command: Sequence[str], membership: Membership) -> None:
        self._seen = _Seen()
        self._process = subprocess.Popen(
            [*command, json.dumps(asdict(membership))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def in_python(cls, library: str, membership: Membership) -> Self:
        """`library` names a module in `members/`."""
        return cls([sys.executable, "-W", "ignore", "-m", f"tests.interop.members.{library}"], membership)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.crash()

    @property
    def assignment(self) -> frozenset[Partition]:
        return self._seen.assignment or frozenset()

    @property
    def assignments(self) -> int:
        """How often the group gave this member something new; a rebalance that it slept through does not count."""
        return sum(event["event"] == "assigned" for event in self._seen.events)

    @property
    def values(self) -> list[str]:
        return list(self._seen.values)

    @property
    def revoked(self) -> list[Partition]:
        return list(self._seen.revoked)

    @property
    def errors(self) -> list[str]:
        return list(self._seen.errors)

    def story(self) -> str:
        """Everything but the records, for the one who has to find out what went wrong."""
        told = [json.dumps(event) for event in self._seen.events if event["event"] != "record"]
        return f"[{self._process.poll()}] {' '.join(told)} and {len(self._seen.values)} records"

    def leave(self) -> None:
        """Says goodbye to the group, and waits until that is done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._reader.join()

    def crash(self) -> None:
        self._process.kill()
        self._process.wait(timeout=20)
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def wait_for(self, count: int, timeout_s: float = 20.0) -> None:
        """Until this member holds so many partitions."""
        eventually(lambda: len(self.assignment) == count, f"a member has {count} partitions", timeout_s)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            seen = self._seen
            match event["event"]:
                case "assigned":
                    seen.assignment = frozenset((topic, index) for topic, index in event["partitions"])
                case "revoked":
                    lost = [(topic, index) for topic, index in event["partitions"]]
                    seen.revoked.extend(lost)
                    seen.assignment = (seen.assignment or frozenset()) - set(lost)
                case "record":
                    seen.values.append(event["value"])
                case "error":
                    seen.errors.append(f"{event['code']}: {event['text']}")
            seen.events.append(event)


def share_out(members: Sequence[Member], topics: dict[str, int], timeout_s: float = 20.0) -> None:
    """Waits until the members together hold every partition exactly once, and evenly."""
    wanted = {(topic, index) for topic, count in topics.items() for index in range(count)}

    def settled() -> bool:
        sizes = [len(member.assignment) for member in members]
        held = set().union(*(member.assignment for member in members))
        return held == wanted and sum(sizes) == len(wanted) and max(sizes) - min(sizes) <= len(topics)

    what = f"{len(members)} members share {len(wanted)} partitions"
    eventually(settled, what, timeout_s, lambda: [member.story() for member in members])


def arrived(members: Sequence[Member], wanted: Sequence[str]) -> None:
    """Waits until every one of these values has reached some member."""
    eventually(lambda: set(wanted) <= {value for member in members for value in member.values}, f"{wanted} arrived")


def one_leaves_and_one_crashes(server: Server, topic: str, members: tuple[Member, Member, Member]) -> None:
    """Of three that share the six partitions of a topic the first stays, and gets everything."""
    stays, leaves, crashes = members
    arrived(members, server.write(topic, 6, "three members"))

    leaves.leave()
    share_out([stays, crashes], {topic: 6})
    arrived([stays, crashes], server.write(topic, 6, "one left"))

    crashes.crash()
    written = server.write(topic, 6, "one crashed")
    share_out([stays], {topic: 6})
    arrived([stays], written)
