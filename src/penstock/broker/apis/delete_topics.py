"""DeleteTopics, by name or id. What was deleted is gone when the answer comes."""

from __future__ import annotations

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.types import TopicName

from penstock.broker.api import NO_THROTTLE, Api, Caller
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.image import Image, TopicImage
from penstock.cluster.topics import Topics
from penstock.errors import Problem, Refused
from penstock.later import Later, awaiting


class DeleteTopics:
    api = Api(key=20, versions=(1, 6), on_controller=True)

    def __init__(self, image: Image, topics: Topics) -> None:
        self._image = image
        self._topics = topics

    def start(self, request: DeleteTopicsRequest, caller: Caller) -> Later[DeleteTopicsResponse]:
        return awaiting(self._delete_all(request))

    async def _delete_all(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        rows = [_row(row, await self._delete(row)) for row in request.topics]
        return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(rows))

    async def _delete(self, row: DeleteTopicState) -> TopicImage | Refused:
        if row.name is not None and row.topic_id is not None:
            return Refused(Problem.INVALID_REQUEST, "name a topic by its name or by its id, not by both")
        if row.name is not None:
            return await self._topics.delete(row.name)
        topic = None if row.topic_id is None else self._image.topic_by_id(row.topic_id)
        if topic is None:
            return Refused(Problem.UNKNOWN_TOPIC_ID, f"no topic has the id {row.topic_id}")
        return await self._topics.delete(topic.name, topic.id)


def _row(asked: DeleteTopicState, result: TopicImage | Refused) -> DeletableTopicResult:
    if isinstance(result, Refused):
        return DeletableTopicResult(
            name=asked.name, topic_id=asked.topic_id, error_code=code_of(result), error_message=result.text
        )
    return DeletableTopicResult(name=TopicName(result.name), topic_id=result.id, error_code=NONE)
