"""TxnOffsetCommit: offsets that a group shall have come to if the producer's transaction is committed.

Before the first of a transaction is taken, the transaction's coordinator is asked whether that transaction is under way
and will end here, too: what comes late must not be left for ever in a state in which nobody may read it. Version 5 has
the coordinator add the group's partition by that question; older clients have sent AddOffsetsToTxn before.

What comes on a connection older than the newest that its producer committed on may be a late one, for a transaction
that is over; and as with OffsetCommit, so may be what would take its group back on an old one. It is not carried out,
and the connection is closed: a client that means it sends it again on a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestTopic
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from msgspec import structs

from penstock.broker.api import NO_THROTTLE, Api, Caller, CloseConnection
from penstock.broker.commit_rows import offsets_in, problem_finder
from penstock.broker.error_codes import code_or_none
from penstock.broker.topic_names import resolve
from penstock.cluster.core.image import Image, TopicImage
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.transaction_events import TransactionGuard
from penstock.groups.core.transaction_events import TxnOffsetCommit as Event
from penstock.later import Later
from penstock.wire.lifts.txn_offset_commit import TxnOffsetCommitRequest

Resolved = Sequence[tuple[TxnOffsetCommitRequestTopic, TopicImage | Problem]]

# Of the transaction's coordinator. Told as they are they would send the client to look for the group's.
_ASK_AGAIN = (
    Problem.NOT_COORDINATOR,
    Problem.COORDINATOR_NOT_AVAILABLE,
    Problem.NOT_LEADER,
    Problem.REQUEST_TIMED_OUT,
    Problem.BUSY,
)


class Verification(Protocol):
    """Who asks the coordinator of a transaction about it."""

    def of_offsets(
        self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str, *, adds: bool
    ) -> Later[Refused | None]:
        """None: the transaction is under way in this epoch, and the group's partition of the offsets topic will have

        its marker. `adds`: put it there if it is not.
        """


class TxnOffsetCommit:
    api = Api(key=28, versions=(0, 5))

    def __init__(self, groups: Groups, image: Image, verification: Verification) -> None:
        self._groups = groups
        self._image = image
        self._verification = verification

    def start(self, request: TxnOffsetCommitRequest, caller: Caller) -> Later[TxnOffsetCommitResponse]:
        topics = [(topic, resolve(self._image, topic.name, None)) for topic in request.topics]
        wanted = [offsets_in(topic.partitions, found) for topic, found in topics if isinstance(found, TopicImage)]
        event = Event(
            group_id=request.group_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            topics=tuple(topic for topic in wanted if topic.offsets),
            member_id=request.member_id,
            generation=request.generation_id,
            group_instance_id=request.group_instance_id,
            connection=caller.number,
        )
        if not event.topics:
            return Later.of(_response(CommitAnswer(None), topics))
        return self._commit(request, event).map(lambda answer: _response(answer, topics))

    def _commit(self, request: TxnOffsetCommitRequest, event: Event) -> Later[CommitAnswer | Refused]:
        guard = self._groups.transaction_guard(event.group_id, event.producer_id, event.producer_epoch)
        if isinstance(guard, Refused):
            return Later.of(guard)
        if guard is None:
            return self._groups.submit(event.group_id, event, CommitAnswer)
        verified = self._verification.of_offsets(
            request.transactional_id,
            event.producer_id,
            event.producer_epoch,
            event.group_id,
            adds=request.adds_offsets,
        )
        return verified.then(lambda refused: self._commit_verified(event, guard, refused))

    def _commit_verified(
        self, event: Event, guard: TransactionGuard, refused: Refused | None
    ) -> Later[CommitAnswer | Refused]:
        if refused is not None:
            again = refused.problem in _ASK_AGAIN
            return Later.of(Refused(Problem.COORDINATOR_LOADING, refused.text) if again else refused)
        if not all(self._image.topic_by_id(UUID(bytes=topic.topic_id)) for topic in event.topics):
            # It would take the place of what was committed for another topic of that name since.
            return Later.of(Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, "a topic was deleted meanwhile"))
        return self._groups.submit(event.group_id, structs.replace(event, guard=guard), CommitAnswer)


def _response(answer: CommitAnswer | Refused, topics: Resolved) -> TxnOffsetCommitResponse:
    if answer.problem is Problem.COMMIT_OVERTAKEN:
        raise CloseConnection(
            "a commit came on a connection older than the last that its producer or group committed on"
        )
    problem = problem_finder(answer)
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index,
                        error_code=code_or_none(problem(found, row.partition_index)),
                    )
                    for row in topic.partitions
                ),
            )
            for topic, found in topics
        ),
    )
