"""The follower's side of an incremental fetch session (KIP-227): only what changed is named, either way.

One request at a time: `ask` → `answered` or `unanswered`. In between, what is wanted may change; the next request
says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.wire.fetch import ForgottenTopic, PartitionFetch, TopicFetch
from penstock.wire.fetch_answer import FetchAnswer

# Topic id and partition: a topic that was created anew is another one.
Key = tuple[UUID, int]

NO_SESSION = 0
_INITIAL_EPOCH = 0
_FIRST_EPOCH = 1
_LAST_EPOCH = 2**31 - 1


class SessionRequest(NamedTuple):
    """The part of a Fetch request that the session decides."""

    session_id: int
    session_epoch: int
    topics: list[TopicFetch]
    forgotten_topics: list[ForgottenTopic]


class FetchSession:
    """With one leader."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = _INITIAL_EPOCH
        # In the order of the next full request: what got records goes to the end, so that nothing starves.
        self._wanted: dict[Key, PartitionFetch] = {}
        # What the leader has been told, and holds if the session goes on.
        self._told: dict[Key, PartitionFetch] = {}
        # What may differ between the two.
        self._touched: dict[Key, None] = {}
        self._asking = False

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, topic_id: UUID, row: PartitionFetch) -> None:
        """Adds a partition, or says what is wanted of it now."""
        key = (topic_id, row.partition)
        if self._wanted.get(key) != row:
            self._wanted.pop(key, None)
            self._wanted[key] = row
            self._touched[key] = None

    def drop(self, topic_id: UUID, partition: int) -> None:
        key = (topic_id, partition)
        if self._wanted.pop(key, None) is not None:
            self._touched[key] = None

    def ask(self) -> SessionRequest:
        """The next request; an answer, or that there is none, must be reported before the one after."""
        if self._asking:
            raise RuntimeError("the last request of this session has not been answered yet")
        self._asking = True
        if self._epoch == _INITIAL_EPOCH:
            self._told = dict(self._wanted)
            self._touched.clear()
            return SessionRequest(self._session_id, self._epoch, _by_topic(self._told), [])
        wanted, told = self._wanted, self._told
        changed = {key: wanted[key] for key in self._touched if key in wanted and told.get(key) != wanted[key]}
        forgotten = [key for key in self._touched if key in told and key not in wanted]
        self._touched.clear()
        told.update(changed)
        for key in forgotten:
            del told[key]
        return SessionRequest(self._session_id, self._epoch, _by_topic(changed), _forgotten_by_topic(forgotten))

    def answered(self, answer: FetchAnswer) -> str | None:
        """None: its rows are of partitions that were asked for, each at most once. Otherwise why it cannot be used;

        the next request starts a session anew. A row may be of a partition that was dropped meanwhile.
        """
        self._asking = False
        if answer.error_code is not ErrorCode.none:
            known = answer.error_code is not ErrorCode.fetch_session_id_not_found
            self._start_anew(self._session_id if known else NO_SESSION)
            return f"refused: {answer.error_code.name}"
        named = [(topic.topic_id, row.partition) for topic in answer.topics for row in topic.partitions]
        unique = set(named)
        if len(unique) != len(named) or not unique <= self._told.keys():
            self._start_anew(self._session_id)
            return "partitions that were not asked for, or one twice"
        if self._epoch == _INITIAL_EPOCH:
            return self._opened(answer, len(unique))
        if answer.session_id != self._session_id:
            # The leader has closed it; what it says still counts.
            self._start_anew(NO_SESSION)
        else:
            self._epoch = _FIRST_EPOCH if self._epoch == _LAST_EPOCH else self._epoch + 1
        return None

    def _opened(self, answer: FetchAnswer, named: int) -> str | None:
        if named != len(self._told):
            # A throttled answer may be empty (KIP-219).
            self._start_anew(answer.session_id)
            return "throttled" if answer.throttle_ms else f"{named} partitions of {len(self._told)} that were asked for"
        if answer.session_id == NO_SESSION:
            # The leader keeps none: full requests do as well.
            self._start_anew(NO_SESSION)
        else:
            self._session_id, self._epoch = answer.session_id, _FIRST_EPOCH
        return None

    def unanswered(self) -> None:
        """Whether the leader has seen the last request is not known, so neither is what it holds."""
        self._asking = False
        self._start_anew(self._session_id)

    def _start_anew(self, session_id: int) -> None:
        """With an id: that session is closed by the next request."""
        self._session_id, self._epoch = session_id, _INITIAL_EPOCH


def _by_topic(rows: dict[Key, PartitionFetch]) -> list[TopicFetch]:
    """Neighbours of one topic together; the order is the leader's order of reading."""
    topics: list[TopicFetch] = []
    for (topic_id, _), row in rows.items():
        if not topics or topics[-1].topic_id != topic_id:
            topics.append(TopicFetch("", topic_id, []))
        topics[-1].partitions.append(row)
    return topics


def _forgotten_by_topic(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in keys:
        topics.setdefault(topic_id, []).append(partition)
    return [ForgottenTopic("", topic_id, tuple(partitions)) for topic_id, partitions in topics.items()]
