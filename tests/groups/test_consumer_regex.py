"""Patterns from clients: RE2 semantics, whole names, bounded cost."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError, Problem
from penstock.groups.core.regex import MAX_PATTERN_CHARACTERS, check_pattern, topics_matching


def test_the_whole_name_has_to_match() -> None:
    assert topics_matching("order.*", ["orders", "order", "my-orders"]) == {"orders", "order"}


def test_the_empty_pattern_matches_nothing() -> None:
    assert topics_matching("", ["", "a"]) == frozenset()


@pytest.mark.parametrize("pattern", ["(", "(?=ahead)", r"(a)\1", "a{1000}{1000}", "x" * (MAX_PATTERN_CHARACTERS + 1)])
def test_what_re2_cannot_do_safely_is_refused(pattern: str) -> None:
    with pytest.raises(PenstockError) as refused:
        check_pattern(pattern)
    assert refused.value.problem is Problem.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_compiles_to_too_much_is_refused() -> None:
    with pytest.raises(PenstockError, match="too large"):
        check_pattern(r"((\pL{100}){10})" * 3)


@pytest.mark.timeout(5)
def test_a_pattern_that_makes_backtracking_engines_hang_is_quick() -> None:
    assert topics_matching("(a+)+b", ["a" * 249]) == frozenset()
