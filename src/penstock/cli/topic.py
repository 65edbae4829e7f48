"""`penstock topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from penstock.cli.confirm import YesOption, confirm
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    answer_of,
    connect_admin,
    refusals_told,
)
from penstock.cli.core.position import WANTED
from penstock.cli.failure import fail
from penstock.cli.offsets import bounds_of, partitions_of, position_argument, resolve
from penstock.cli.output import Output, OutputOption, show_fields, show_json, show_rows
from penstock.config.load import parse_assignment
from penstock.errors import PenstockError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Create, list, describe, alter and delete topics.",
)

_DELETES = "this deletes data"

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the topic; may be repeated.")
]


@app.command(epilog="Example: penstock topic create orders --partitions 6 --set retention.ms=86400000")
def create(
    topic: TopicArgument,
    partitions: Annotated[int | None, typer.Option(min=1, help="The node's num.partitions if left out.")] = None,
    settings: SetOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is fine.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Create a topic."""
    new = NewTopic(topic, num_partitions=partitions or -1, replication_factor=-1, config=_assignments(settings))
    admin = connect_admin(bootstrap)
    created = True
    with refusals_told(bootstrap):
        try:
            answer_of(admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S))
        except KafkaException as refusal:
            if not (if_not_exists and refusal.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS):
                raise
            created = False
        count = len(partitions_of(admin, topic))
    show_fields(output, {"topic": topic, "created": created, "partitions": count})


@app.command("list", epilog="Example: penstock topic list --output json")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics too.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the topics."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        topics = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    rows = [
        {"topic": name, "partitions": len(topic.partitions)}
        for name, topic in sorted(topics.items())
        if internal or not name.startswith("__")
    ]
    show_rows(output, rows, ["topic", "partitions"])


@app.command(epilog="Example: penstock topic describe orders")
def describe(
    topic: TopicArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TEXT
) -> None:
    """Show a topic's partitions, offsets and settings."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        about = answer_of(admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S))
        bounds = bounds_of(admin, [(topic, partition.id) for partition in about.partitions])
        config = _config(admin, topic)
    rows = [
        {
            "partition": partition.id,
            "leader": partition.leader.id if partition.leader else None,
            "replicas": [node.id for node in partition.replicas],
            "in_sync": [node.id for node in partition.isr],
            "start_offset": bounds[topic, partition.id].start,
            "end_offset": bounds[topic, partition.id].end,
        }
        for partition in about.partitions
    ]
    changed = {entry.name: entry.value for entry in config.values() if not entry.is_default}
    head = {"topic": topic, "topic_id": str(about.topic_id), "internal": about.is_internal}
    if output is Output.JSON:
        every = {entry.name: entry.value for entry in config.values()}
        show_json({**head, "settings": every, "changed_settings": changed, "partitions": rows})
        return
    show_fields(output, {**head, "changed_settings": [f"{name}={value}" for name, value in changed.items()]})
    show_rows(output, rows, ["partition", "leader", "replicas", "in_sync", "start_offset", "end_offset"])


@app.command(epilog="Example: penstock topic alter orders --set retention.ms=3600000 --unset segment.bytes")
def alter(
    topic: TopicArgument,
    settings: SetOption = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Back to the node's default.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Change settings of a topic; the others stay as they are."""
    entries = [_change(name, value, AlterConfigOpType.SET) for name, value in _assignments(settings).items()]
    entries += [_change(name, None, AlterConfigOpType.DELETE) for name in unset or []]
    if not entries:
        raise typer.BadParameter("nothing to change: give --set NAME=VALUE or --unset NAME")
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        answer_of(admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S))
        config = _config(admin, topic)
    rows = [{"name": entry.name, "value": config[entry.name].value} for entry in entries if entry.name in config]
    show_rows(output, rows, ["name", "value"])


@app.command(epilog="Example: penstock topic delete orders --yes")
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete topics with everything in them."""
    confirm(f"Delete {', '.join(topics)} with all records?", yes, _DELETES)
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        for future in admin.delete_topics(list(topics), request_timeout=REQUEST_TIMEOUT_S).values():
            future.result(REQUEST_TIMEOUT_S)
    show_rows(output, [{"topic": topic, "deleted": True} for topic in topics], ["topic", "deleted"])


@app.command(epilog="Example: penstock topic add-partitions orders --total 12")
def add_partitions(
    topic: TopicArgument,
    total: Annotated[int, typer.Option(min=1, help="How many there shall be in all.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Add partitions. Keys go to other partitions from then on, and partitions cannot be removed again."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        answer_of(admin.create_partitions([NewPartitions(topic, total)], request_timeout=REQUEST_TIMEOUT_S))
    show_fields(output, {"topic": topic, "partitions": total})


@app.command(epilog="Example: penstock topic delete-records orders --before 2026-05-01T00:00:00Z --yes")
def delete_records(
    topic: TopicArgument,
    before: Annotated[str, typer.Option(metavar="POSITION", help=f"The first to keep: {WANTED}.")],
    partition: Annotated[list[int] | None, typer.Option(help="Only there; may be repeated.")] = None,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete the oldest records of a topic, up to a position."""
    position = position_argument(before)
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        partitions = [each for each in partitions_of(admin, topic) if not partition or each[1] in partition]
        if not partitions:
            fail(f"there is no such topic or partition: {topic}", do="see the topics with: penstock topic list")
        targets = resolve(admin, partitions, position)
        confirm(f"Delete the records of {topic} before {_shown(targets)}?", yes, _DELETES)
        requests = [TopicPartition(name, number, offset) for (name, number), offset in targets.items()]
        answers = admin.delete_records(requests, request_timeout=REQUEST_TIMEOUT_S)
        rows = [
            {"partition": each.partition, "start_offset": future.result(REQUEST_TIMEOUT_S).low_watermark}
            for each, future in answers.items()
        ]
    show_rows(output, sorted(rows, key=lambda row: row["partition"]), ["partition", "start_offset"])


def _assignments(settings: list[str] | None) -> dict[str, str]:
    try:
        return dict(parse_assignment(text) for text in settings or [])
    except PenstockError as error:
        raise typer.BadParameter(str(error)) from None


def _change(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)


def _config(admin: AdminClient, topic: str) -> dict[str, Any]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries: dict[str, Any] = answer_of(admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S))
    return entries


def _shown(targets: dict[tuple[str, int], int]) -> str:
    return ", ".join(f"{number}@{offset}" for (_, number), offset in sorted(targets.items()))
