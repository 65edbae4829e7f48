"""What a ConsumerGroupHeartbeat may ask for. Every check raises PenstockError with what the caller is told."""

from __future__ import annotations

from penstock.errors import PenstockError, Problem
from penstock.groups.core.assignors import NO_PARTITIONS, Partitions
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.consumer_reconcile import NOT_JOINED_EPOCH, STATIC_LEFT_EPOCH
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.limits import MAX_GROUP_ID_CHARACTERS
from penstock.groups.core.partition_sets import is_subset, union
from penstock.groups.core.regex import check_pattern


def check_request(event: ConsumerGroupHeartbeat, limits: ConsumerLimits) -> None:
    """What is wrong with the request itself, whatever the group."""
    if not 0 < len(event.group_id) <= MAX_GROUP_ID_CHARACTERS:
        text = f"a group id has 1 to {MAX_GROUP_ID_CHARACTERS} characters"
        raise PenstockError(Problem.INVALID_GROUP_ID, text)
    if event.instance_id == "" or event.rack_id == "":
        raise _invalid("instance id and rack id are either absent or not empty")
    if event.member_epoch < STATIC_LEFT_EPOCH:
        raise _invalid(f"{event.member_epoch} is no member epoch")
    if not event.member_id and (event.needs_own_member_id or event.member_epoch != NOT_JOINED_EPOCH):
        raise _invalid("the member id is empty: consumers choose their own (a UUID) and keep it")
    if event.member_epoch == STATIC_LEFT_EPOCH and event.instance_id is None:
        raise _invalid("only a member with an instance id can leave for a while (epoch -2)")
    if event.member_epoch == NOT_JOINED_EPOCH:
        _check_join(event)
    if event.server_assignor is not None and event.server_assignor not in limits.assignors:
        text = f"there is no assignor {event.server_assignor!r}, only: {', '.join(limits.assignors)}"
        raise PenstockError(Problem.UNSUPPORTED_ASSIGNOR, text)
    if event.topic_regex:
        check_pattern(event.topic_regex)


def _check_join(event: ConsumerGroupHeartbeat) -> None:
    if event.rebalance_timeout_ms < 0:
        raise _invalid("a member that joins has to give its rebalance timeout")
    if event.owned is None or event.owned:
        raise _invalid("a member that joins owns no partitions: the list has to be there and empty")
    if not event.topic_names and not event.topic_regex:
        raise _invalid("a member that joins has to subscribe to topics, by name or by pattern")


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, limits: ConsumerLimits) -> None:
    is_known = member_id in group.members or instance_id in group.static_members
    if not is_known and len(group.members) >= limits.max_size:
        text = f"group {group.group_id} has {limits.max_size} members already: group.consumer.max.size allows no more"
        raise PenstockError(Problem.GROUP_FULL, text)


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that sends under this identity; an instance id that another member has taken over is fenced."""
    holder = member_id if instance_id is None else group.static_members.get(instance_id)
    if holder is not None and holder != member_id:
        text = f"instance {instance_id} is now member {holder}: {member_id} has been replaced"
        raise PenstockError(Problem.FENCED_INSTANCE_ID, text)
    member = group.members.get(holder or "")
    if member is None:
        raise PenstockError(Problem.UNKNOWN_MEMBER, f"{member_id} is not a member of group {group.group_id}")
    return member


def check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """The previous epoch is good, too, if the member owns nothing that it should not: the answer that told it the

    new one may be lost.
    """
    if epoch == member.epoch:
        return
    current = member.current
    may_own = union(current.assigned, current.pending_revocation)
    if not current.is_one_behind(epoch) or not is_subset(owned or NO_PARTITIONS, may_own):
        text = f"member {member.member_id} is at epoch {member.epoch}, not {epoch}: it has to give up all and rejoin"
        raise PenstockError(Problem.FENCED_MEMBER_EPOCH, text)


def _invalid(text: str) -> PenstockError:
    return PenstockError(Problem.INVALID_REQUEST, text)
