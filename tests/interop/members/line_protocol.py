"""The member programs' side of the line protocol (`tests/interop/member.py`)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from typing import Any

from tests.interop.membership import Membership


def membership() -> Membership:
    return Membership(**json.loads(sys.argv[1]))


def until_input_ends() -> threading.Event:
    """Set once the test has closed this program's input (or has ended)."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def say_assigned(partitions: Iterable[Any]) -> None:
    """The whole assignment as it is now."""
    _say(event="assigned", partitions=[(it.topic, it.partition) for it in partitions])


def say_revoked(partitions: Iterable[Any]) -> None:
    _say(event="revoked", partitions=[(it.topic, it.partition) for it in partitions])


def say_record(value: bytes | None) -> None:
    _say(event="record", value=(value or b"").decode())


def say_error(code: int, text: str) -> None:
    _say(event="error", code=code, text=text)


def _say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()
