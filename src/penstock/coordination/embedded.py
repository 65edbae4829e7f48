"""The store of a single node: a tree in memory, journalled on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from penstock.coordination.core.limits import check_readable
from penstock.coordination.core.tree import Draft, Tree, Write
from penstock.coordination.interface import Change, Node, SessionState, Unwatch
from penstock.coordination.journal import Journal
from penstock.coordination.watches import Watches
from penstock.disk.interface import Disk
from penstock.errors import PenstockError, Problem
from penstock.units import MIB

# Bounds what one sync makes everybody wait for; the rest shares the next one.
_MAX_COMMITS_PER_SYNC = 256
# Replaying this much at start takes milliseconds.
_FULL_JOURNAL_BYTES = MIB


class _Waiting(NamedTuple):
    changes: tuple[Change, ...]
    answer: asyncio.Future[list[int]]


class EmbeddedStore:
    """Implements `Store` for one process. Use it on one event loop; opening blocks, nothing else does.

    Commits that come while one is being written wait together and share the next sync. Every answer, a conflict
    too, is given after the sync of all that it could have seen. Its session lasts as long as the process: opening
    removes the ephemeral nodes of the run before.
    """

    def __init__(self, journal: Journal, tree: Tree, torn_bytes: int) -> None:
        self.torn_bytes = torn_bytes
        self._began_empty = not tree.writes()
        self._journal = journal
        self._session_id = journal.generation
        self._tree = tree
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._watches = Watches()
        # One thread: the journal is written by one at a time, and the loop never waits for the device.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordination")
        self._closed = False

    @classmethod
    def open(cls, disk: Disk, directory: str, *, full_journal_bytes: int = _FULL_JOURNAL_BYTES) -> EmbeddedStore:
        """Recover what is there, or begin an empty store. Raises PenstockError(STORAGE_FAILED) with what to do."""
        recovered = Journal.open(disk, directory, full_journal_bytes)
        tree = Tree(recovered.last_created)
        tree.apply(recovered.writes)
        tree.apply([Write(path, None, 0) for path in tree.ephemeral_paths()])
        recovered.journal.restart(tree.writes(), tree.last_created)
        return cls(recovered.journal, tree, recovered.torn_bytes)

    @property
    def began_empty(self) -> bool:
        """Nothing was in it when it was opened: it is new, or its files are lost.

        A node that finds data beside it and refuses to go on finds the same at the next start.
        """
        return self._began_empty

    @property
    def failure(self) -> str | None:
        """Why it takes no more changes, and what to do."""
        return self._journal.failure

    @property
    def session_state(self) -> SessionState:
        return SessionState.CONNECTED

    @property
    def session_id(self) -> int:
        return self._session_id

    def watch_session(self, callback: Callable[[SessionState], None]) -> Unwatch:
        """Nothing to tell: there is one session, and no life without it."""
        return lambda: None

    async def read(self, path: str) -> Node | None:
        check_readable(path)
        return self._tree.read(path)

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        return [await self.read(path) for path in paths]

    async def sync(self) -> None:
        """Everything that was answered shows already."""

    async def children(self, path: str) -> list[str]:
        check_readable(path)
        return sorted(self._tree.child_names(path))

    async def commit(self, changes: Sequence[Change]) -> list[int]:
        if self._closed:
            raise PenstockError(Problem.STORAGE_FAILED, "the coordination store is closed")
        waiting = _Waiting(tuple(changes), asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
            self._writing.add_done_callback(self._stopped_writing)
        return await waiting.answer

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        return self._watches.add(prefix, callback)

    async def close(self) -> None:
        """Finishes what waits, then lets go of the files."""
        self._closed = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await asyncio.get_running_loop().run_in_executor(self._executor, self._journal.close)
        self._executor.shutdown()

    async def _write_all(self) -> None:
        while self._waiting:
            group = self._waiting[:_MAX_COMMITS_PER_SYNC]
            await self._write_group(group)
            del self._waiting[: len(group)]

    def _stopped_writing(self, writing: asyncio.Task[None]) -> None:
        """Only a bug or the end of the loop leaves an answer open; nobody may wait for it for ever."""
        if not writing.cancelled() and (error := writing.exception()) is not None:
            text = "the coordination store met a bug"
            asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})
        if writing is not self._writing:
            return
        waiting, self._waiting, self._writing = self._waiting, [], None
        for each in waiting:
            text = "the coordination store did not get to it; the log says why"
            _answer(each.answer, PenstockError(Problem.STORAGE_FAILED, text))

    async def _write_group(self, group: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        draft = Draft(self._tree, self._session_id)
        outcomes = [_attempt(draft, waiting.changes) for waiting in group]
        try:
            # Not even a conflict is certain when what is on disk is not.
            self._journal.check_usable()
            if draft.writes:
                await loop.run_in_executor(self._executor, self._journal.append, draft.writes)
        except PenstockError as error:
            for waiting in group:
                _answer(waiting.answer, error)
            return
        self._tree.apply(draft.writes)
        for path in {write.path: None for write in draft.writes}:
            self._watches.notify(path)
        for waiting, outcome in zip(group, outcomes, strict=True):
            _answer(waiting.answer, outcome)
        if self._journal.is_full:
            await self._snapshot()

    async def _snapshot(self) -> None:
        writes, last = self._tree.writes(), self._tree.last_created
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._journal.restart, writes, last)
        except PenstockError:
            # The journal now refuses every commit with the reason: the next caller gets it.
            return


def _attempt(draft: Draft, changes: Sequence[Change]) -> list[int] | PenstockError:
    try:
        return draft.commit(changes)
    except PenstockError as error:
        return error


def _answer(answer: asyncio.Future[list[int]], outcome: list[int] | PenstockError) -> None:
    """The caller may have been cancelled; what it asked for is done all the same."""
    if answer.done():
        return
    if isinstance(outcome, PenstockError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
