"""A start outlasts a store that is out of reach for a moment, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rpc.peer import on_loop

from penstock.cluster.patience import patiently
from penstock.coordination.embedded import EmbeddedStore
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem


class Attempts:
    def __init__(self, *problems: Problem) -> None:
        self._problems = list(problems)
        self.made = 0

    async def make(self) -> int:
        self.made += 1
        if self._problems:
            raise PenstockError(self._problems.pop(0), "this time")
        return self.made


@on_loop
async def test_what_cannot_be_reached_is_tried_again(tmp_path: Path) -> None:
    store = EmbeddedStore.open(LocalDisk(), str(tmp_path))
    assert await patiently(store, Attempts(Problem.STORE_UNAVAILABLE).make, 30) == 2
    await store.close()


@pytest.mark.parametrize(("problem", "patience_s"), [(Problem.INVALID_CONFIG, 30), (Problem.STORE_UNAVAILABLE, 0)])
@on_loop
async def test_what_will_not_change_is_said_at_once(problem: Problem, patience_s: float, tmp_path: Path) -> None:
    store = EmbeddedStore.open(LocalDisk(), str(tmp_path))
    attempts = Attempts(problem, problem)
    with pytest.raises(PenstockError, match="this time"):
        await patiently(store, attempts.make, patience_s)
    assert attempts.made == 1
    await store.close()
