"""Subscriptions by pattern, with RE2: a client's pattern costs time in proportion to the topic name, never more.

Python's own `re` backtracks, so one subscription such as `(a+)+$` could stop the broker. RE2 is also what Kafka
promises its users (KIP-848), so the same patterns are valid here and there.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from penstock.errors import PenstockError, Problem
from penstock.units import KIB

MAX_PATTERN_CHARACTERS = 4 * KIB
# What one compiled pattern may take. A few hundred alternatives fit; a pattern made to be large does not.
_MAX_COMPILED_BYTES = 256 * KIB
# Consumers of a group share a pattern, so few are alive at once; together at most 16 MiB stay.
_KEPT_PATTERNS = 64


def check_pattern(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION with what is wrong with it."""
    _compiled(pattern)


def topics_matching(pattern: str, topic_names: Iterable[str]) -> frozenset[str]:
    """Those whose whole name matches. The empty pattern, with which a client ends its subscription, matches none."""
    if not pattern:
        return frozenset()
    matches = _compiled(pattern).fullmatch
    return frozenset(name for name in topic_names if matches(name))


@lru_cache(maxsize=_KEPT_PATTERNS)
def _compiled(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        text = f"the pattern has {len(pattern)} characters: at most {MAX_PATTERN_CHARACTERS} are allowed"
        raise PenstockError(Problem.INVALID_REGULAR_EXPRESSION, text)
    options = re2.Options()
    options.max_mem = _MAX_COMPILED_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else "it cannot be compiled"
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        text = f"the pattern {pattern[:100]!r} is not a valid RE2 expression: {why[:200]}"
        raise PenstockError(Problem.INVALID_REGULAR_EXPRESSION, text) from None
