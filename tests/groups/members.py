"""Classic group members, as tests see them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable

from tests.groups.runner import Pending, Runner, answer_of

from penstock.errors import Problem
from penstock.groups.core.answers import HeartbeatAnswer, JoinAnswer, SyncAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import JoinGroup, MemberHeartbeat, SyncGroup
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine

_fresh = itertools.count(1)

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def running(limits: GroupLimits | None = None) -> Runner:
    """A machine without initial delay, unless the limits say otherwise."""
    chosen = limits or GroupLimits(initial_rebalance_delay_ms=0)
    return Runner(lambda: GroupsMachine(chosen, ConsumerLimits()))


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription, version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def joining(
    member_id: str = "",
    *,
    group_id: str = "group",
    instance_id: str | None = None,
    protocols: Iterable[tuple[str, bytes]] = (("range", subscription("orders")),),
    session_timeout_ms: int = SESSION_MS,
    rebalance_timeout_ms: int = REBALANCE_MS,
    protocol_type: str = "consumer",
    known_id: bool = False,
    can_skip: bool = True,
) -> JoinGroup:
    """`known_id`: as a client does that knows MEMBER_ID_REQUIRED. Without it, one request is enough to join."""
    return JoinGroup(
        group_id=group_id,
        member_id=member_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=protocol_type,
        protocols=tuple(protocols),
        fresh_id=str(next(_fresh)),
        group_instance_id=instance_id,
        needs_known_member_id=known_id,
        can_skip_assignment=can_skip,
    )


def join(runner: Runner, event: JoinGroup) -> JoinAnswer:
    return answer_of(runner.submit(event), JoinAnswer)


def sync(runner: Runner, joined: JoinAnswer, assignment: bytes = b"") -> SyncAnswer:
    """A leader's SyncGroup that assigns so much to itself, or that of any member of a stable group."""
    rows = ((joined.member_id, assignment),) if assignment else ()
    return runner.ask(SyncGroup("group", joined.member_id, joined.generation, assignments=rows), SyncAnswer)


def beat(runner: Runner, joined: JoinAnswer, group_id: str = "group") -> Problem | None:
    return runner.ask(MemberHeartbeat(group_id, joined.member_id, joined.generation), HeartbeatAnswer).problem


def stable_group(runner: Runner, size: int, group_id: str = "group") -> list[JoinAnswer]:
    """A group of so many dynamic members, the leader first; member n is assigned b"part-n"."""
    waiting = [runner.submit(joining(group_id=group_id))]
    joined = [answer_of(waiting[0], JoinAnswer)]
    for _ in range(size - 1):
        waiting = [runner.submit(joining(group_id=group_id))]
        waiting += [runner.submit(joining(known.member_id, group_id=group_id)) for known in joined]
        newcomer, *others = (answer_of(pending, JoinAnswer) for pending in waiting)
        joined = [*others, newcomer]
    share_out(runner, joined, group_id)
    return joined


def share_out(runner: Runner, joined: list[JoinAnswer], group_id: str = "group") -> list[SyncAnswer]:
    """All members sync, the leader last."""
    leader = joined[0].leader
    assignments = tuple((member.member_id, b"part-%d" % n) for n, member in enumerate(joined))
    pending: list[Pending[SyncAnswer]] = []
    for member in sorted(joined, key=lambda member: member.member_id == leader):
        rows = assignments if member.member_id == leader else ()
        event = SyncGroup(group_id, member.member_id, member.generation, assignments=rows)
        pending.append(runner.submit(event))  # type: ignore[arg-type]
    return [one.answer for one in pending]
