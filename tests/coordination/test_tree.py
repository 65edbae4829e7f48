"""What a commit does: versions, conflicts, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from penstock.coordination.core.tree import Draft, Tree, Write
from penstock.coordination.interface import MAX_NODE_BYTES, Change, Check, Create, Node, Remove, Replace
from penstock.errors import PenstockError, Problem


def tree_of(*writes: Write) -> Tree:
    tree = Tree()
    tree.apply(writes)
    return tree


SESSION = 7
A_AND_B = (Write("/a", b"1", 3), Write("/a/b", b"2", 0))


def test_versions_count_replacements() -> None:
    draft = Draft(Tree(), SESSION)
    assert draft.commit([Create("/a", b"1"), Create("/a/b", b"")]) == [0, 0]
    assert draft.commit([Replace("/a", b"2", 0), Replace("/a", b"3", 1), Check("/a", 2)]) == [1, 2, 2]
    assert draft.read("/a") == Node(b"3", 2, created=1)
    assert draft.commit([Remove("/a/b", 0), Remove("/a", 2), Create("/a", b"new")]) == [0, 2, 0]


def test_what_a_removal_costs_does_not_grow_with_what_else_is_removed() -> None:
    """A topic with thousands of partitions goes; the event loop waits for it."""
    numbers = [range(3_000), range(3_000, 6_000)]
    tree = tree_of(Write("/a", b"", 0), *(Write(f"/a/{number}", b"", 0) for part in numbers for number in part))
    draft = Draft(tree, SESSION)
    started_s = time.process_time()
    for part in numbers:
        draft.commit([Remove(f"/a/{number}", 0) for number in part])
    assert time.process_time() - started_s < 2
    assert draft.commit([Remove("/a", 0)]) == [0]


@pytest.mark.parametrize(
    "changes",
    [
        [Create("/a", b"")],
        [Create("/x/y", b"")],
        [Replace("/a", b"", 2)],
        [Replace("/x", b"", 0)],
        [Remove("/a", 3)],
        [Remove("/a/b", 1)],
        [Remove("/x", 0)],
        [Check("/a", 2)],
        [Check("/x", 0)],
        [Remove("/a/b", 0), Check("/a/b", 0)],
        [Create("/new", b""), Replace("/a", b"new", 3), Check("/a", 3)],
    ],
)
def test_a_conflict_changes_nothing(changes: Sequence[Change]) -> None:
    draft = Draft(tree_of(*A_AND_B), SESSION)
    with pytest.raises(PenstockError) as caught:
        draft.commit(changes)
    assert caught.value.problem is Problem.STORE_CONFLICT
    assert changes[-1].path in str(caught.value)
    assert draft.writes == []
    assert draft.read("/a") == Node(b"1", 3)
    assert draft.read("/new") is None


@pytest.mark.parametrize(
    "path", ["", "/", "a", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a\0", "/a\n", "/\ud800", "/\ufffd", "/\U0001f600"]
)
def test_bad_paths_are_refused(path: str) -> None:
    with pytest.raises(PenstockError) as caught:
        Draft(tree_of(*A_AND_B), SESSION).commit([Create(path, b"")])
    assert caught.value.problem is Problem.INVALID_REQUEST


def test_a_node_has_a_largest_size() -> None:
    draft = Draft(Tree(), SESSION)
    draft.commit([Create("/a", bytes(MAX_NODE_BYTES))])
    with pytest.raises(PenstockError, match="limit") as caught:
        draft.commit([Replace("/a", bytes(MAX_NODE_BYTES + 1), 0)])
    assert caught.value.problem is Problem.INVALID_REQUEST


def test_a_draft_leaves_its_tree_alone_until_its_writes_are_applied() -> None:
    tree = tree_of(*A_AND_B)
    draft = Draft(tree, SESSION)
    draft.commit([Create("/a/c", b"3"), Remove("/a/b", 0)])
    assert tree.child_names("/a") == {"b"}
    assert draft.child_names("/a") == {"c"}
    tree.apply(draft.writes)
    assert tree.child_names("/a") == {"c"}
    assert tree_of(*tree.writes()).writes() == tree.writes() == [Write("/a", b"1", 3), Write("/a/c", b"3", 0, 1)]
