"""`penstock group`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    answer_of,
    connect_admin,
    refusals_told,
)
from penstock.cli.core.position import WANTED
from penstock.cli.failure import fail, say
from penstock.cli.offset_delete import delete_offsets as send_delete_offsets
from penstock.cli.offsets import Partition, bounds_of, partitions_of, position_argument, resolve
from penstock.cli.output import Output, OutputOption, show_fields, show_json, show_rows
from penstock.config.address import Address

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, describe, reset and delete consumer groups.",
)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP")]
TopicsOption = Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")]


@app.command("list", epilog="Example: penstock group list --output json")
def list_groups(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TEXT) -> None:
    """List the groups."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        answer = admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result(REQUEST_TIMEOUT_S)
        for error in answer.errors:
            raise error
    rows = [
        {"group": group.group_id, "state": group.state.name.lower(), "protocol": group.type.name.lower()}
        for group in sorted(answer.valid, key=lambda group: group.group_id)
    ]
    show_rows(output, rows, ["group", "state", "protocol"])


@app.command(epilog="Example: penstock group describe billing")
def describe(
    group: GroupArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TEXT
) -> None:
    """Show a group's members, offsets and how far it is behind."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        about = _describe(admin, group)
        committed = _committed(admin, group)
        owners = _owners(about)
        # A topic may be gone while offsets for it are left: those have no end to be behind of.
        existing = {
            each for topic in {topic for topic, _ in [*committed, *owners]} for each in partitions_of(admin, topic)
        }
        bounds = bounds_of(admin, existing)
    rows: list[dict[str, Any]] = []
    for partition in sorted({*committed, *owners}):
        offset = committed.get(partition)
        end = bounds[partition].end if partition in bounds else None
        lag = end - offset if end is not None and offset is not None else None
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition[0],
                "partition": partition[1],
                "committed_offset": offset,
                "end_offset": end,
                "lag": lag,
                "member": owner.member_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    _show_description(output, about, rows)


@app.command(epilog="Example: penstock group reset-offsets billing --topic orders --to 2026-05-01T00:00:00Z --dry-run")
def reset_offsets(
    group: GroupArgument,
    to: Annotated[str, typer.Option(metavar="POSITION", help=f"Where to read next: {WANTED}.")],
    topic: TopicsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, change nothing.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Move a group to other offsets. Its consumers must be stopped."""
    position = position_argument(to)
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        committed = _committed(admin, group)
        topics = sorted(set(topic or []) or {name for name, _ in committed})
        partitions = [each for name in topics for each in partitions_of(admin, name)]
        if not partitions:
            fail(f"group {group} has no offsets to reset", do="name a topic that exists with --topic")
        targets = resolve(admin, partitions, position)
        if not dry_run:
            _commit(admin, group, targets)
    if dry_run:
        say("dry run: nothing was changed")
    rows = [
        {"topic": name, "partition": number, "old_offset": committed.get((name, number)), "new_offset": offset}
        for (name, number), offset in sorted(targets.items())
    ]
    show_rows(output, rows, ["topic", "partition", "old_offset", "new_offset"])


@app.command(epilog="Example: penstock group delete billing")
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete groups with their offsets. Their consumers must be stopped."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        for future in admin.delete_consumer_groups(list(groups), request_timeout=REQUEST_TIMEOUT_S).values():
            future.result(REQUEST_TIMEOUT_S)
    show_rows(output, [{"group": group, "deleted": True} for group in groups], ["group", "deleted"])


@app.command(epilog="Example: penstock group delete-offsets billing --topic orders")
def delete_offsets(
    group: GroupArgument,
    topic: Annotated[list[str], typer.Option("--topic", help="Whose offsets to forget; may be repeated.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Forget a group's offsets of some topics. None of its consumers may be subscribed to them."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        chosen: defaultdict[str, list[int]] = defaultdict(list)
        for name, number in sorted(_committed(admin, group)):
            if name in topic:
                chosen[name].append(number)
        if not chosen:
            fail(f"group {group} has no offsets of {', '.join(topic)}", do=f"see: penstock group describe {group}")
        coordinator = _describe(admin, group).coordinator
        send_delete_offsets(Address(coordinator.host, coordinator.port), group, chosen)
    rows = [{"topic": name, "partition": number} for name, numbers in chosen.items() for number in numbers]
    show_rows(output, rows, ["topic", "partition"])


def _describe(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    about: ConsumerGroupDescription = answer_of(
        admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
    )
    return about


def _committed(admin: AdminClient, group: str) -> dict[Partition, int]:
    request = [ConsumerGroupTopicPartitions(group)]
    answer = answer_of(admin.list_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_S))
    return {(each.topic, each.partition): each.offset for each in answer.topic_partitions if each.offset >= 0}


def _commit(admin: AdminClient, group: str, targets: dict[Partition, int]) -> None:
    offsets = [TopicPartition(name, number, offset) for (name, number), offset in targets.items()]
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    answer_of(admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_S))


def _owners(about: ConsumerGroupDescription) -> dict[Partition, Any]:
    return {
        (each.topic, each.partition): member for member in about.members for each in member.assignment.topic_partitions
    }


def _show_description(output: Output, about: ConsumerGroupDescription, rows: list[dict[str, Any]]) -> None:
    head = {
        "group": about.group_id,
        "state": about.state.name.lower(),
        "protocol": about.type.name.lower(),
        "assignor": about.partition_assignor or None,
        "coordinator": about.coordinator.id,
        "lag": sum(row["lag"] or 0 for row in rows),
    }
    members = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.host,
            "partitions": len(member.assignment.topic_partitions),
        }
        for member in about.members
    ]
    if output is Output.JSON:
        show_json({**head, "members": members, "offsets": rows})
        return
    show_fields(output, {**head, "members": len(members)})
    show_rows(output, rows, ["topic", "partition", "committed_offset", "end_offset", "lag", "member", "host"])
