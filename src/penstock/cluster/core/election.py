"""From a partition's state and who is alive to the state that it should have. Everything that changes an ISR ends here.

What must hold of every state, so that nothing committed is lost (KIP-966):

- Everyone in the ISR and everyone eligible has all that was committed. A member that leaves an ISR which is then below
  min ISR becomes eligible, because from then on the high watermark stands still; as soon as the ISR is large enough
  again nobody is eligible any more. The min ISR is part of the state, so that a change of the setting and what follows
  from it for those eligible are one compare-and-swap.
- Leaders come from the ISR, then from those eligible; from elsewhere only by an unclean election.
- With flush.policy=os that is true of those alone who did not lose power, and the controller hears of that last, and of
  one after the other. So whoever leaves the ISR or is eligible no more is remembered (`last_known_eligible_leaders`)
  until the leader has spoken at a version without it: then the leader lived on, and has everything. Before that it
  commits nothing. If nobody is left for sure, all that are remembered are asked for their log ends.
- The ISR is empty exactly while there is no leader. The death of its last member makes that one eligible (an empty ISR
  is below any min ISR), so it is not forgotten: it leads again when it is back.
- A leader epoch belongs to one leader and one life of it: it rises with every new leader, also with "none", when the
  leader by record comes back in another life, and when replicas are taken away, whose fetches must not count any more.
  It does not rise when followers leave the ISR or join it: the leader may go on with the ISR that it knows, since a
  larger one only makes it wait longer, and its own changes are fenced by the partition epoch, the node's version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from typing import NamedTuple

from msgspec.structs import replace

from penstock.coordination.paths import NO_EPOCH, NO_LEADER, PartitionState

Replicas = tuple[int, ...]


class TopicSettings(NamedTuple):
    """What an election needs to know of a topic."""

    min_insync_replicas: int = 1
    # flush.policy=os: what a replica acknowledged may not be on its disk.
    acknowledges_unsynced: bool = False
    unclean_leader_election: bool = False


class Electorate(NamedTuple):
    """Brokers by id. `live`: registered, admitted in that epoch, not fenced. `stopping`: those of them that will go.

    `joining`: registered, about to be admitted. They do not lead, and stay in an ISR that has a live member: what they
    have to leave is decided when they are admitted.
    """

    live: AbstractSet[int]
    stopping: AbstractSet[int] = frozenset()
    joining: AbstractSet[int] = frozenset()

    def admitting(self, node_id: int) -> Electorate:
        return Electorate(self.live | {node_id}, self.stopping, self.joining - {node_id})


class Choice(Enum):
    # The leader stays while it may.
    KEEP = auto()
    # The first replica leads as soon as it may.
    PREFERRED = auto()
    # Anyone who is alive, rather than nobody, whatever the topic's setting says.
    UNCLEAN = auto()


class LogEnd(NamedTuple):
    """Of two logs the one with the higher (last epoch, end) has all that was committed of the other.

    It would not if a leader committed what older epochs wrote while one is remembered that wrote in a later epoch.

    A log of which all was deleted has no last epoch (NO_EPOCH). What is deleted was committed, so if it ends behind
    all that others have, they have nothing that it lacks, and they lack the offsets in between.
    """

    last_epoch: int
    end_offset: int


def settled(
    state: PartitionState,
    electorate: Electorate,
    settings: TopicSettings,
    *,
    choice: Choice = Choice.KEEP,
    new_life: bool = False,
) -> PartitionState:
    """`state` itself if nothing has to change. `new_life`: the leader by record is not the one that it was."""
    isr = _remaining(state.isr, electorate)
    if (
        choice is Choice.KEEP
        and not new_life
        and isr == state.isr
        and state.leader in isr
        and state.leader in electorate.live
        and not state.adding
        and not state.removing
        and state.min_insync_replicas == effective_min_isr(state, settings)
    ):
        return state
    after = changed(state, state, isr, electorate, settings, choice=choice, new_life=new_life)
    return state if after == state else after


def changed(
    before: PartitionState,
    wanted: PartitionState,
    isr: Iterable[int],
    electorate: Electorate,
    settings: TopicSettings,
    *,
    choice: Choice = Choice.KEEP,
    new_life: bool = False,
) -> PartitionState:
    """`wanted` is `before` but for replicas, adding and removing, and `isr` shall be its ISR: the rest follows.

    Who of `before` is neither in `isr` nor among the replicas of `wanted` is gone; who is in `isr` has everything.
    """
    wanted = _completed(wanted, _in_order(wanted.replicas, _remaining(tuple(isr), electorate)), electorate)
    min_isr = effective_min_isr(wanted, settings)
    isr = wanted.isr
    eligible = _eligible(wanted.replicas, {*before.isr, *before.eligible_leaders}, isr, min_isr)
    doubtful = _remembered(before, wanted.replicas, isr, eligible, settings)
    leader = _leader_of(isr, wanted, electorate, choice)
    if leader == NO_LEADER:
        isr = ()
        leader, is_certain = _successor(wanted.replicas, eligible, doubtful, electorate, settings, choice)
        if leader != NO_LEADER:
            isr = (leader,)
            eligible = _eligible(wanted.replicas, eligible, isr, min_isr) if is_certain else ()
            doubtful = _remembered(before, wanted.replicas, isr, eligible, settings) if is_certain else ()
    lost_replicas = not set(before.replicas) <= set(wanted.replicas)
    is_new_epoch = leader != before.leader or (leader != NO_LEADER and (new_life or lost_replicas))
    last_known = before.leader if before.leader != NO_LEADER else before.last_known_leader
    return replace(
        wanted,
        leader=leader,
        leader_epoch=before.leader_epoch + is_new_epoch,
        # Its order says nothing: a state that differs in that alone is not written.
        isr=before.isr if set(isr) == set(before.isr) else isr,
        eligible_leaders=eligible,
        last_known_leader=last_known if leader == NO_LEADER else NO_LEADER,
        min_insync_replicas=min_isr,
        last_known_eligible_leaders=doubtful,
    )


def without(state: PartitionState, node_id: int, *, keeps_doubtful: bool) -> PartitionState:
    """The broker does not have for sure what it had; with `keeps_doubtful` it has most of it. Settle it afterwards.

    It is remembered even if others could lead: they may have gone down with it, and nobody knows yet. The leader's next
    change of the ISR shows that it lived on, and has everything (`proven`).
    """
    doubtful = state.last_known_eligible_leaders
    is_member = node_id in state.isr or node_id in state.eligible_leaders
    if not keeps_doubtful:
        doubtful = _less(doubtful, node_id)
    elif is_member:
        doubtful = (*_less(doubtful, node_id), node_id)
    elif node_id not in doubtful:
        return state
    return replace(
        state,
        isr=_less(state.isr, node_id),
        eligible_leaders=_less(state.eligible_leaders, node_id),
        last_known_eligible_leaders=doubtful,
    )


def proven(state: PartitionState) -> PartitionState:
    """The leader has spoken at this version: whoever came back in doubt before it is of no use any more."""
    return replace(state, last_known_eligible_leaders=()) if state.last_known_eligible_leaders else state


def candidates_in_doubt(state: PartitionState) -> Replicas:
    """Those of whom the one with the highest log end shall lead, once all of them are live; usually none."""
    if state.leader != NO_LEADER or state.isr or state.eligible_leaders:
        return ()
    return state.last_known_eligible_leaders


def elected_by_log_end(
    state: PartitionState, ends: Mapping[int, LogEnd], electorate: Electorate, settings: TopicSettings
) -> PartitionState:
    """`ends` of all `candidates_in_doubt`, who are live."""
    written = max((end.end_offset for end in ends.values() if end.last_epoch != NO_EPOCH), default=0)
    emptied = {r for r, end in ends.items() if end.last_epoch == NO_EPOCH and end.end_offset > written}
    order = state.replicas
    winner = max(candidates_in_doubt(state), key=lambda r: (r in emptied, ends[r], -order.index(r)))
    alone = replace(state, last_known_eligible_leaders=(winner,))
    after = settled(alone, electorate, settings)
    others = _less(candidates_in_doubt(state), winner)
    return replace(after, last_known_eligible_leaders=others) if after.leader == winner else state


def effective_min_isr(state: PartitionState, settings: TopicSettings) -> int:
    """At most the number of replicas, the smaller one during a reassignment: else it could stop all writing."""
    replicas = len(state.replicas) - max(len(state.adding), len(state.removing))
    return max(1, min(settings.min_insync_replicas, replicas))


def new_partition(replicas: Replicas, electorate: Electorate, settings: TopicSettings) -> PartitionState | None:
    """Of a new partition, that has nothing yet to lose: all that are alive are in sync. None: nobody is."""
    isr = tuple(r for r in replicas if r in electorate.live and r not in electorate.stopping)
    if not isr:
        return None
    state = PartitionState(isr[0], 0, isr, replicas)
    return replace(state, min_insync_replicas=effective_min_isr(state, settings))


def _remaining(isr: Replicas, electorate: Electorate) -> Replicas:
    """Who is dead leaves. Who is stopping leaves too, but not as the last: until it goes it can serve.

    Nobody is left if none of them could lead.
    """
    live, stopping, joining = electorate
    if not all(r in live for r in isr):
        isr = tuple(r for r in isr if r in live or r in joining)
        if not any(r in live for r in isr):
            return ()
    if stopping and any(r in live and r not in stopping for r in isr):
        return tuple(r for r in isr if r not in stopping)
    return isr


def _completed(state: PartitionState, isr: Replicas, electorate: Electorate) -> PartitionState:
    """With this ISR, and without the reassignment if that is done: when all that shall stay are in sync (KIP-455)."""
    if state.adding or state.removing:
        target = tuple(r for r in state.replicas if r not in state.removing)
        if all(r in isr and r in electorate.live for r in target):
            return replace(state, isr=target, replicas=target, adding=(), removing=(), throttled_rate=0)
    return replace(state, isr=isr)


def _eligible(replicas: Replicas, have_everything: Iterable[int], isr: Replicas, min_isr: int) -> Replicas:
    if len(isr) >= min_isr:
        return ()
    return tuple(r for r in replicas if r in have_everything and r not in isr)


def _remembered(
    before: PartitionState, replicas: Replicas, isr: Replicas, eligible: Replicas, settings: TopicSettings
) -> Replicas:
    """Those in doubt; with flush.policy=os also whoever had everything and does not count any more."""
    had = before.last_known_eligible_leaders
    if settings.acknowledges_unsynced:
        had = (*had, *before.isr, *before.eligible_leaders)
    return tuple(r for r in had if r in replicas and r not in isr and r not in eligible)


def _leader_of(isr: Replicas, state: PartitionState, electorate: Electorate, choice: Choice) -> int:
    """`isr` is in the order of the replicas."""
    able = [r for r in isr if r in electorate.live]
    if choice is Choice.PREFERRED and state.replicas[0] in able:
        return state.replicas[0]
    if state.leader in able:
        return state.leader
    return able[0] if able else NO_LEADER


def _successor(
    replicas: Replicas,
    eligible: Replicas,
    doubtful: Replicas,
    electorate: Electorate,
    settings: TopicSettings,
    choice: Choice,
) -> tuple[int, bool]:
    """When nobody is left in the ISR. False: it may lack something, so nobody else counts besides it."""
    able = electorate.live - electorate.stopping
    for replica in eligible:
        if replica in able:
            return replica, True
    if not eligible and doubtful and choice is not Choice.UNCLEAN and all(replica in able for replica in doubtful):
        # Of several the one with the highest log end leads: they have to be asked.
        return (doubtful[0] if len(doubtful) == 1 else NO_LEADER), False
    if settings.unclean_leader_election or choice is Choice.UNCLEAN:
        for replica in (*doubtful, *replicas):
            if replica in able:
                return replica, False
    return NO_LEADER, False


def _in_order(replicas: Replicas, members: Replicas) -> Replicas:
    return tuple(r for r in replicas if r in members)


def _less(members: Replicas, node_id: int) -> Replicas:
    return tuple(r for r in members if r != node_id) if node_id in members else members
