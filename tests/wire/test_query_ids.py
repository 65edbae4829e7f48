"""Which name the coordinator of a transactional id is found by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.query_ids import attempt_id, coordinated_name, is_attempt_id


@given(st.text(min_size=1), st.integers(0), st.integers(0))
def test_all_ids_of_a_query_have_one_coordinator(query: str, one: int, other: int) -> None:
    assert coordinated_name(attempt_id(query, one)) == coordinated_name(attempt_id(query, other))
    assert is_attempt_id(attempt_id(query, one))


@given(st.text(min_size=1), st.text(min_size=1))
def test_queries_do_not_share_a_name(one: str, other: str) -> None:
    assert (coordinated_name(attempt_id(one, 0)) == coordinated_name(attempt_id(other, 0))) == (one == other)


@given(st.text().filter(lambda name: not name.startswith("__query/")))
def test_every_other_id_has_its_own(name: str) -> None:
    assert coordinated_name(name) == name
    assert not is_attempt_id(name)
