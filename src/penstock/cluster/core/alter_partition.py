"""A leader's wish for another ISR: checked, and what follows from it. Errors are Kafka's for AlterPartition."""

from __future__ import annotations

from penstock.cluster.core.draft import Draft
from penstock.cluster.core.effects import Row
from penstock.cluster.core.election import changed, proven, without
from penstock.cluster.core.events import AlterPartition, IsrChange
from penstock.cluster.core.view import PartitionKey, PartitionNode
from penstock.errors import Problem, Refused


def alter_partition(draft: Draft, request: AlterPartition, change: IsrChange) -> Row:
    topic = draft.view.topic_name(change.topic_id)
    if topic is None:
        return Row(None, Refused(Problem.UNKNOWN_TOPIC_ID, f"there is no topic with the id {change.topic_id}"))
    key = PartitionKey(topic, change.partition)
    node = draft.partition(key)
    if node is None:
        return Row(key, Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has no partition {change.partition}"))
    refusal = _stale_broker(draft, request) or _stale(node, request, change) or _invalid(node, change)
    if refusal is None:
        refusal = _ineligible(draft, node, change) or _lonely(draft, node, change)
    if refusal is not None:
        return Row(key, refusal)
    isr = [member.node_id for member in change.isr]
    # One that makes room lives on too, but its log does not have everything for sure.
    state = proven(node.state) if request.node_id in isr else node.state
    for replica in change.lost:
        state = without(state, replica, keeps_doubtful=False)
    after = changed(state, state, isr, draft.electorate, draft.view.settings(topic))
    draft.put_partition(key, after, even_if_same=True)
    row = Row(key, None, PartitionNode(after, node.version + 1))
    if after.leader != request.node_id:
        text = f"{topic}-{change.partition}: with this change broker {after.leader} became the leader"
        return row._replace(refusal=Refused(Problem.NEW_LEADER_ELECTED, text))
    return row


def _stale_broker(draft: Draft, request: AlterPartition) -> Refused | None:
    broker = draft.view.broker(request.node_id)
    if broker.broker_epoch == request.broker_epoch and request.node_id in draft.electorate.live:
        return None
    text = f"broker {request.node_id} is not registered and admitted with epoch {request.broker_epoch}"
    return Refused(Problem.STALE_BROKER_EPOCH, text)


def _stale(node: PartitionNode, request: AlterPartition, change: IsrChange) -> Refused | None:
    state, version = node
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > version:
        return Refused(Problem.NOT_CONTROLLER, "the leader knows more than this controller: there is a later one")
    if change.leader_epoch < state.leader_epoch:
        return Refused(Problem.FENCED_LEADER_EPOCH, f"leader epoch {change.leader_epoch} is over")
    if request.node_id != state.leader:
        return Refused(Problem.INVALID_REQUEST, f"broker {request.node_id} asks, but {state.leader} is the leader")
    if change.partition_epoch < version:
        text = f"partition epoch {change.partition_epoch} is over, {version} is the newest"
        return Refused(Problem.INVALID_UPDATE_VERSION, text)
    return None


def _invalid(node: PartitionNode, change: IsrChange) -> Refused | None:
    members = [member.node_id for member in change.isr]
    if len(set(members)) != len(members) or not set(members) <= set(node.state.replicas):
        return Refused(Problem.INVALID_REQUEST, f"{members} are not distinct replicas of {list(node.state.replicas)}")
    return None


def _lonely(draft: Draft, node: PartitionNode, change: IsrChange) -> Refused | None:
    """A leader that leaves the ISR, because its log has failed, wants another one of it to lead."""
    members = {member.node_id for member in change.isr}
    live, stopping, _ = draft.electorate
    if node.state.leader in members or any(r in live and r not in stopping for r in members & set(node.state.isr)):
        return None
    return Refused(Problem.ELIGIBLE_LEADERS_NOT_AVAILABLE, "nobody else is in sync and alive: the leader has to stay")


def _ineligible(draft: Draft, node: PartitionNode, change: IsrChange) -> Refused | None:
    """Only of those who join. Who is a member already is the controller's to judge: it has dropped or kept it."""
    live, stopping, _ = draft.electorate
    for member in change.isr:
        if member.node_id in node.state.isr:
            continue
        if member.node_id not in live or member.node_id in stopping:
            return Refused(Problem.INELIGIBLE_REPLICA, f"broker {member.node_id} is not live and admitted, or stopping")
        if member.broker_epoch != (epoch := draft.view.broker(member.node_id).broker_epoch):
            text = f"broker {member.node_id} fetched in epoch {member.broker_epoch}, but its epoch is {epoch}"
            return Refused(Problem.INELIGIBLE_REPLICA, text)
    return None
