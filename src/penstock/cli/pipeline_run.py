"""`penstock pipeline run`: one command for each pipeline."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from pyspark.sql import SparkSession

from penstock.cli.connection import DEFAULT_BOOTSTRAP, BootstrapOption, connect_admin
from penstock.cli.core.position import Anchor
from penstock.cli.failure import EXIT_INTERRUPTED, say
from penstock.cli.offsets import position_argument
from penstock.cli.output import Output, OutputOption, show_json
from penstock.cli.pipeline_audit import run_audit
from penstock.cli.pipeline_options import (
    CheckpointOption,
    ConfOption,
    ContinuousOption,
    EveryOption,
    FromOption,
    GroupOption,
    MasterOption,
    SetOption,
    ToOption,
    TopicArgument,
    assignments,
    starts_of,
    told,
)
from penstock.cli.pipeline_usage import EXAMPLE, run_usage
from penstock.cli.progress import Meter
from penstock.pipelines.aggregate import Windows, aggregate
from penstock.pipelines.archive import archive
from penstock.pipelines.core import target as tables
from penstock.pipelines.core.time_range import TimeRange
from penstock.pipelines.progress import BatchReport, Told, Totals
from penstock.pipelines.replay import ReplayRun, replay
from penstock.pipelines.session import spark_session
from penstock.pipelines.topic_stream import TopicRun

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run a pipeline until it is done, or with --continuous until it is stopped. Run again, it goes on.",
)


@app.command("archive", epilog="Example: penstock pipeline run archive orders --to delta:/lake/orders --continuous")
def run_archive(
    topic: TopicArgument,
    to: ToOption,
    begin: FromOption = "beginning",
    json_schema: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Values are JSON: 'id long, name string', or @FILE. Raw if left out."),
    ] = None,
    checkpoint: CheckpointOption = None,
    continuous: ContinuousOption = False,
    every: EveryOption = 60.0,
    group: GroupOption = None,
    options: SetOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Copy a topic into a table, exactly once."""
    with told():
        run = TopicRun(
            bootstrap=bootstrap,
            topic=topic,
            target=tables.Target.parse(to),
            starts=starts_of(bootstrap, topic, begin),
            checkpoint=checkpoint,
            every_s=every if continuous else None,
            group=group,
            options=assignments("--option", options),
        )
        schema = _text_or_file(json_schema)
        session = spark_session("archive", master, assignments("--conf", conf))
        summary = _run("archived", session, lambda session, say_batch: archive(session, run, schema, say_batch))
    _finish(summary, {"topic": topic, "table": to}, output)


@app.command(
    "aggregate", epilog="Example: penstock pipeline run aggregate logs --to parquet:/lake/logs --window '1 day'"
)
def run_aggregate(
    topic: TopicArgument,
    to: ToOption,
    begin: FromOption = "beginning",
    window: Annotated[str, typer.Option(help="How long a window is.")] = "1 hour",
    late: Annotated[str, typer.Option(help="How late records may come and still count.")] = "10 minutes",
    by: Annotated[str, typer.Option(help="What is counted by: SQL over a record's columns.")] = "CAST(key AS STRING)",
    checkpoint: CheckpointOption = None,
    continuous: ContinuousOption = False,
    every: EveryOption = 60.0,
    group: GroupOption = None,
    options: SetOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Count a topic's records and bytes by time and key, into a table."""
    with told():
        run = TopicRun(
            bootstrap=bootstrap,
            topic=topic,
            target=tables.Target.parse(to),
            starts=starts_of(bootstrap, topic, begin),
            checkpoint=checkpoint,
            every_s=every if continuous else None,
            group=group,
            options=assignments("--option", options),
        )
        windows = Windows(length=window, late=late, key=by)
        session = spark_session("aggregate", master, assignments("--conf", conf))
        summary = _run("aggregated", session, lambda session, say_batch: aggregate(session, run, windows, say_batch))
    _finish(summary, {"topic": topic, "table": to}, output)


@app.command("replay", epilog="Example: penstock pipeline run replay delta:/lake/orders again --from 2026-05-01T12:00Z")
def run_replay(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=tables.WANTED)],
    topic: TopicArgument,
    begin: Annotated[str | None, typer.Option("--from", help="The first moment: 2026-05-01T12:00:00Z or @MS.")] = None,
    end: Annotated[str | None, typer.Option("--until", help="The moment before which to end.")] = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Which rows, over the table's columns.")] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="To the partitions that they came from, not by key.")
    ] = False,
    replay_id: Annotated[str | None, typer.Option("--id", help="A replay with this id is done once.")] = None,
    options: SetOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send a table's rows to a topic, with their keys, headers and timestamps, all or none."""
    with told():
        run = ReplayRun(
            bootstrap=bootstrap,
            source=tables.Target.parse(table),
            topic=topic,
            replay_id=replay_id or f"replay-{uuid.uuid4().hex}",
            times=TimeRange(_moment_us(begin), _moment_us(end)),
            predicate=where,
            keep_partitions=keep_partitions,
            options=assignments("--option", options),
        )
        connect_admin(bootstrap)
        with (
            Meter("replayed") as meter,
            spark_session("replay", master, assignments("--conf", conf)) as session,
        ):
            meter.add(replay(session, run), 0)
    _finish(_Summary(meter, {}), {"topic": topic, "id": run.replay_id}, output)


app.command("audit", epilog="Example: penstock pipeline run audit --bootstrap broker-1:9092 --output json")(run_audit)
app.command("usage", epilog=EXAMPLE)(run_usage)


class _Summary(NamedTuple):
    meter: Meter
    counts: dict[str, int]
    is_interrupted: bool = False


def _run(
    verb: str,
    opening: AbstractContextManager[SparkSession],
    work: Callable[[SparkSession, Told], None],
) -> _Summary:
    totals = Totals()
    with Meter(verb) as meter:

        def say_batch(report: BatchReport) -> None:
            totals.add(report)
            meter.add(report.rows + report.unreadable, report.size_bytes)

        try:
            with opening as session:
                work(session, say_batch)
        except KeyboardInterrupt:
            return _Summary(meter, vars(totals), is_interrupted=True)
    return _Summary(meter, vars(totals))


def _finish(summary: _Summary, about: dict[str, str], output: Output) -> None:
    meter, more = summary.meter, {**summary.counts, **about}
    if output is Output.JSON:
        show_json({**meter.summary(), **more})
    else:
        say(f"{meter.text()} ({', '.join(f'{name} {value}' for name, value in more.items())})")
    if summary.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _text_or_file(text: str | None) -> str | None:
    return Path(text[1:]).read_text() if text is not None and text.startswith("@") else text


def _moment_us(text: str | None) -> int | None:
    if text is None:
        return None
    position = position_argument(text)
    if position.anchor is not Anchor.TIME:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-05-01T12:00:00Z or @1700000000000 (ms)")
    return position.number * 1000
