"""Deadlines against the plainest model: a dict."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.core.deadlines import Deadline, Deadlines, Purpose

names = st.sampled_from(["a", "b", "c"])
deadlines = st.builds(Deadline, names, st.sampled_from(list(Purpose)), names)
steps = st.lists(st.tuples(deadlines, st.none() | st.integers(0, 50)), max_size=60)


@given(steps, st.integers(0, 60))
def test_they_say_what_is_next_and_what_is_due(steps: list[tuple[Deadline, int | None]], now_ms: int) -> None:
    armed = Deadlines()
    model: dict[Deadline, int] = {}
    for deadline, when_ms in steps:
        if when_ms is None:
            armed.disarm(deadline)
            model.pop(deadline, None)
        else:
            armed.arm(deadline, when_ms)
            model[deadline] = when_ms
        assert armed.get(deadline) == model.get(deadline)
        assert armed.next_ms() == min(model.values(), default=None)
    due = armed.due(now_ms)
    assert set(due) == {deadline for deadline, when_ms in model.items() if when_ms <= now_ms}
    assert [model[deadline] for deadline in due] == sorted(model[deadline] for deadline in due)
    for count in (1, 3, len(due) + 1):
        first = armed.first_due(now_ms, count)
        assert len(first) == len(set(first)) == min(count, len(due)) and set(first) <= set(due)
