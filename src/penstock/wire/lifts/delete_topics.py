"""DeleteTopics: up to version 5 a list of names; then rows of name or topic id."""

from __future__ import annotations

from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as NamesRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from penstock.wire.lifts.lift import Lift


def _lift(request: NamesRequest) -> DeleteTopicsRequest:
    topics = tuple(DeleteTopicState(name=name, topic_id=None) for name in request.topic_names)
    return DeleteTopicsRequest(topics=topics, timeout=request.timeout)


LIFT = Lift(api_key=20, pivot=5, lift_pivot=_lift)
