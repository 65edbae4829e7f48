"""Replicas of a partition move (KIP-455): those that come are added, and when all that shall stay are in sync, those

that go are removed, in one change. The replicas are at all times the target followed by those that go.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from penstock.cluster.core.election import candidates_in_doubt
from penstock.cluster.core.view import PartitionKey, View
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused


def reassigned(
    state: PartitionState, target: tuple[int, ...], takers: AbstractSet[int], throttled_rate: int = 0
) -> PartitionState | Refused:
    """Begins it, over another one that is under way too. `takers`: brokers that may get a replica now.

    The result has the wished replicas, and its ISR is without those that the earlier reassignment would have added and
    this one does not: pass both to `election.changed`, which also ends it if nothing is left to do.
    """
    if not target:
        return Refused(Problem.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica")
    if len(set(target)) != len(target) or min(target) < 0:
        return Refused(Problem.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(target)} are not distinct brokers")
    original = _original(state)
    adding = tuple(r for r in target if r not in original)
    # One that was being added already may have died since: that is no reason to refuse another change.
    if unable := [r for r in adding if r not in takers and r not in state.adding]:
        text = f"brokers {unable} are not known, dead, stopping or draining: they cannot take a replica"
        return Refused(Problem.INVALID_REPLICA_ASSIGNMENT, text)
    removing = tuple(r for r in original if r not in target)
    # Nothing else would end it where nothing is copied.
    throttled = replace(state, throttled_rate=throttled_rate if adding else 0)
    return _with_replicas(throttled, (*target, *removing), adding, removing)


def cancelled(state: PartitionState) -> PartitionState | Refused:
    if not state.adding and not state.removing:
        return Refused(Problem.NO_REASSIGNMENT_IN_PROGRESS, "nothing to cancel: its replicas do not move")
    return _with_replicas(replace(state, throttled_rate=0), _original(state), (), ())


def reassignments(view: View, keys: Iterable[PartitionKey] | None = None) -> dict[PartitionKey, PartitionState]:
    """Those under way, of these partitions or of all."""
    found = {}
    for key in view.reassigning if keys is None else keys:
        if key in view.reassigning and (node := view.partition(key)) is not None:
            found[key] = node.state
    return found


def target_of(state: PartitionState) -> tuple[int, ...]:
    """The replicas that it has, or will have when its reassignment is done."""
    return tuple(r for r in state.replicas if r not in state.removing)


def _original(state: PartitionState) -> tuple[int, ...]:
    return tuple(r for r in state.replicas if r not in state.adding)


def _with_replicas(
    state: PartitionState, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionState | Refused:
    isr = tuple(r for r in state.isr if r in replicas)
    eligible = tuple(r for r in state.eligible_leaders if r in replicas)
    if (len(isr) != len(state.isr) and not isr) or (not state.isr and state.eligible_leaders and not eligible):
        text = "all that have everything are among those that were being added: wait until another is in sync"
        return Refused(Problem.INVALID_REPLICA_ASSIGNMENT, text)
    if not set(candidates_in_doubt(state)) <= set(replicas):
        text = "one that was being added may be the only one that has everything: wait until there is a leader"
        return Refused(Problem.INVALID_REPLICA_ASSIGNMENT, text)
    return replace(state, replicas=replicas, isr=isr, adding=adding, removing=removing)
