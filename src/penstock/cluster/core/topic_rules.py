"""What a topic may be called and how many partitions it may have."""

from __future__ import annotations

import re

from penstock.errors import PenstockError, Problem

MAX_NAME_LENGTH = 249
# Each partition is a directory with files of its own; more on one broker is a mistake in a script, not a plan.
MAX_PARTITIONS = 10_000

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise _invalid_name(name[:60], f"it must have 1 to {MAX_NAME_LENGTH} characters")
    if name in (".", ".."):
        raise _invalid_name(name, "it would be a directory of its own")
    if _NAME.fullmatch(name) is None:
        raise _invalid_name(name, "only letters, digits, '.', '_' and '-' may be in it")


def is_name(name: str) -> bool:
    """Whether a topic can have it."""
    try:
        check_name(name)
    except PenstockError:
        return False
    return True


def check_partition_count(count: int, current: int = 0) -> None:
    if count <= current:
        text = (
            f"{count} partitions: a topic needs at least one"
            if current == 0
            else (f"{count} partitions: the topic has {current} already, and partitions can only be added")
        )
        raise PenstockError(Problem.INVALID_PARTITIONS, text)
    if count > MAX_PARTITIONS:
        raise PenstockError(Problem.INVALID_PARTITIONS, f"{count} partitions: at most {MAX_PARTITIONS} are possible")


def _invalid_name(name: str, why: str) -> PenstockError:
    return PenstockError(Problem.INVALID_TOPIC_NAME, f"topic name {name!r}: {why}")
