"""Which assignment protocol a classic group uses: one that all members know, and most prefer."""

from __future__ import annotations

from collections import Counter

from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.records import StoredMember


def can_join(group: ClassicGroup, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether a member with these protocols leaves the group at least one that everybody knows."""
    if not group.members:
        return bool(protocol_type) and bool(protocols)
    if protocol_type != group.protocol_type:
        return False
    shared = _shared_by_all(group)
    return any(name in shared for name, _ in protocols)


def select_protocol(group: ClassicGroup) -> str | None:
    """Each member votes for the first of its protocols that everybody knows; ties go to what the leader put first."""
    shared = _shared_by_all(group)
    votes: Counter[str] = Counter()
    for member in group.members.values():
        choice = next((name for name, _ in member.protocols if name in shared), None)
        if choice is not None:
            votes[choice] += 1
    leader = group.members.get(group.leader or "")
    preferred = [name for name, _ in leader.protocols] if leader else []
    candidates = sorted(votes, key=lambda name: (-votes[name], preferred.index(name) if name in preferred else 0))
    return candidates[0] if candidates else None


def metadata_of(member: StoredMember, protocol_name: str | None) -> bytes:
    return next((metadata for name, metadata in member.protocols if name == protocol_name), b"")


def _shared_by_all(group: ClassicGroup) -> set[str]:
    counts = Counter(name for member in group.members.values() for name in {name for name, _ in member.protocols})
    return {name for name, count in counts.items() if count == len(group.members)}
