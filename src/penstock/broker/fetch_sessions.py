"""Incremental fetch sessions (KIP-227): a consumer names only what changed, and hears only of what changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from secrets import randbelow
from typing import Final, Protocol
from uuid import UUID

from penstock.errors import Problem, Refused
from penstock.units import MINUTE_MS

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

MAX_SESSIONS: Final = 1000
# Bounds the memory of all sessions; beyond it clients fetch without one, which always works.
MAX_PARTITIONS: Final = 200_000
# One session may grow to this, far beyond what a consumer is assigned, so that no client takes what all share.
MAX_SESSION_PARTITIONS: Final = 20_000
# A session that was used more recently is not put out for a new one.
EVICT_AFTER_MS: Final = 2 * MINUTE_MS


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch, and what the session last said about it."""

    topic: str
    topic_id: UUID | None
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    # Of a follower.
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    told_high_watermark: int = -1
    told_start_offset: int = -1

    @property
    def key(self) -> tuple[str | UUID, int]:
        return (self.topic_id or self.topic, self.index)


@dataclass(slots=True)
class Session:
    id: int
    wanted: dict[tuple[str | UUID, int], Wanted]
    next_epoch: int
    last_used_ms: int

    def served(self, wanted: Wanted) -> None:
        """It got records, so the others come first next time: no partition starves behind a busy one."""
        key = wanted.key
        if self.wanted.get(key) is wanted:
            del self.wanted[key]
            self.wanted[key] = wanted


@dataclass(frozen=True, slots=True)
class Plan:
    """What this fetch reads. `incremental`: leave out what has not changed."""

    session: Session | None
    wanted: list[Wanted]
    incremental: bool


class Asked(Protocol):
    """The part of a Fetch request that sessions are about."""

    @property
    def session_id(self) -> int: ...
    @property
    def session_epoch(self) -> int: ...


class FetchSessions:
    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._partition_count = 0

    def plan(
        self,
        asked: Asked,
        wanted: Iterable[Wanted],
        forgotten: Iterable[tuple[str | UUID, int]],
        now_ms: int,
    ) -> Plan | Refused:
        if asked.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._close(asked.session_id)
            everything = {row.key: row for row in wanted}
            if asked.session_epoch == FINAL_EPOCH:
                return Plan(None, list(everything.values()), incremental=False)
            return Plan(self._open(everything, now_ms), list(everything.values()), incremental=False)
        session = self._sessions.get(asked.session_id)
        if session is None:
            return Refused(Problem.FETCH_SESSION_NOT_FOUND, f"there is no fetch session {asked.session_id}")
        if session.next_epoch != asked.session_epoch:
            return Refused(
                Problem.INVALID_FETCH_SESSION_EPOCH, f"epoch {asked.session_epoch}, expected {session.next_epoch}"
            )
        if not self._update(session, wanted, forgotten):
            self._close(session.id)
            text = f"fetch session {session.id} has grown too large: fetch without a session, or less"
            return Refused(Problem.FETCH_SESSION_NOT_FOUND, text)
        session.next_epoch = 1 if session.next_epoch == _LAST_EPOCH else session.next_epoch + 1
        session.last_used_ms = now_ms
        return Plan(session, list(session.wanted.values()), incremental=True)

    def _update(self, session: Session, wanted: Iterable[Wanted], forgotten: Iterable[tuple[str | UUID, int]]) -> bool:
        """False when the session has become too large to be kept."""
        before = len(session.wanted)
        for row in wanted:
            known = session.wanted.get(row.key)
            if known is not None:
                row.told_high_watermark, row.told_start_offset = known.told_high_watermark, known.told_start_offset
            session.wanted[row.key] = row
        for key in forgotten:
            session.wanted.pop(key, None)
        self._partition_count += len(session.wanted) - before
        return len(session.wanted) <= MAX_SESSION_PARTITIONS and self._partition_count <= MAX_PARTITIONS

    def _open(self, wanted: dict[tuple[str | UUID, int], Wanted], now_ms: int) -> Session | None:
        if not 0 < len(wanted) <= MAX_SESSION_PARTITIONS or self._partition_count + len(wanted) > MAX_PARTITIONS:
            return None
        if len(self._sessions) >= MAX_SESSIONS and not self._evict(now_ms):
            return None
        # Random, so that no client's mistake lands in another's session.
        while (session_id := randbelow(_LAST_EPOCH) + 1) in self._sessions:
            pass
        session = Session(session_id, wanted, next_epoch=1, last_used_ms=now_ms)
        self._sessions[session.id] = session
        self._partition_count += len(wanted)
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms < EVICT_AFTER_MS:
            return False
        self._close(oldest.id)
        return True

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.wanted)
