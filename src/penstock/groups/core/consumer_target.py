"""When a group needs a new epoch, and with it a new target assignment."""

from __future__ import annotations

from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_records import SubscriptionValue
from penstock.groups.core.consumer_volatile import TopicsCompared
from penstock.groups.core.consumer_work import ConsumerWork


def has_new_topics(before: SubscriptionValue, after: SubscriptionValue) -> bool:
    return before.topic_names != after.topic_names or (before.topic_regex or "") != (after.topic_regex or "")


def keep_target_fresh(work: ConsumerWork, context: ConsumerContext, *, changed: bool) -> None:
    """`changed`: a member subscribes to other topics than before. Topics may have changed by themselves, too."""
    group_id = work.group.group_id
    topics = context.topics
    if changed or not context.known.has_compared(group_id):
        work.refresh(topics, context.draft.now_ms, changed=changed)
        context.draft.note(TopicsCompared(group_id, topics))
    work.retarget(topics)
