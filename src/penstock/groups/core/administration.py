"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import Problem
from penstock.groups.core.answers import DescribedGroup, DescribedMember, GroupDeletion, ListedGroup, ListGroupsAnswer
from penstock.groups.core.classic_protocols import metadata_of
from penstock.groups.core.classic_state import ClassicGroup, ClassicState
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import ListGroups
from penstock.groups.core.group import Group
from penstock.groups.core.offset_table import FORGOTTEN_AT_ONCE, OffsetTable


def describe(group_id: str, group: Group | None) -> DescribedGroup:
    """Only classic groups can be shown in these terms; for DescribeGroups all others do not exist."""
    if not isinstance(group, ClassicGroup):
        return DescribedGroup(group_id, Problem.UNKNOWN_GROUP, "Dead")
    is_stable = group.state is ClassicState.STABLE
    members = tuple(
        DescribedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=metadata_of(member, group.protocol_name) if is_stable else b"",
            assignment=member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        group_id=group_id,
        problem=None,
        state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol_name or "") if is_stable else "",
        members=members,
    )


def list_groups(groups: Iterable[Group], event: ListGroups) -> ListGroupsAnswer:
    states = {state.strip().lower() for state in event.states}
    types = {group_type.strip().lower() for group_type in event.types}
    listed = []
    for group in groups:
        row = ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.group_type.value)
        if (not states or row.state.lower() in states) and (not types or row.group_type.lower() in types):
            listed.append(row)
    return ListGroupsAnswer(tuple(listed))


def delete_group(group_id: str, group: Group | None, table: OffsetTable, draft: Draft) -> GroupDeletion:
    """Offsets go with the group, also those that a transaction would commit later. If there are too many for one batch

    a part of them goes, and the rest and the group when it is asked for again.
    """
    problem: Problem | None = Problem.UNKNOWN_GROUP
    if group is not None:
        problem = group.delete_problem()
    if group is not None and problem is None:
        offsets = table.tombstones(group_id)
        draft.write(*offsets[:FORGOTTEN_AT_ONCE])
        if len(offsets) <= FORGOTTEN_AT_ONCE:
            draft.write(*group.tombstones())
    return GroupDeletion(group_id, problem)
