"""`penstock consume`: records of a topic as lines or JSON."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated, cast

import typer
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    client_settings,
    connect_admin,
    fail_with,
    refusals_told,
)
from penstock.cli.core.position import WANTED, Anchor, Position
from penstock.cli.core.records import JsonLines, Lines, Record, RecordFormat
from penstock.cli.failure import fail
from penstock.cli.offsets import partitions_of, position_argument, resolve
from penstock.cli.output import Output, OutputOption
from penstock.cli.progress import Meter

# As many records are taken per turn; enough that the turn itself costs nothing.
BATCH = 500
# How soon Ctrl-C is noticed.
TURN_S = 0.2
COMMIT_EVERY_S = 1.0

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example: penstock consume orders --from beginning --exit-at-end --output json")
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: Annotated[str, typer.Option("--from", metavar="POSITION", help=f"Where to start: {WANTED}.")] = "end",
    group: Annotated[
        str | None, typer.Option(help="Read as a member of this group, and commit what was written out.")
    ] = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this one; may be repeated.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at the end of the topic instead of waiting for more.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop when nothing arrived for so long.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Write the key and this before the value.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Write the records of a topic to standard output, one per line. Ctrl-C ends it."""
    position = position_argument(start)
    if group is not None:
        _check_group_options(position, partition)
    record_format: RecordFormat = JsonLines() if output is Output.JSON else Lines(key_separator)
    signal.signal(signal.SIGTERM, _interrupt)
    with refusals_told(bootstrap), Meter("consumed", total_records=count) as meter:
        reader = _Reader(_connect(bootstrap, group, position), group is not None, meter, record_format)
        try:
            if group is None:
                reader.assign(_targets(bootstrap, topic, partition, position))
            else:
                reader.subscribe(topic)
            reader.run(count, exit_at_end, timeout)
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:
            # Whoever read us has enough, as in `| head`.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            reader.close()
    meter.finish(None)
    if reader.error is not None:
        fail_with(reader.error, bootstrap)


def _check_group_options(position: Position, partition: list[int] | None) -> None:
    if partition:
        raise typer.BadParameter("--partition and --group do not go together: a group shares out the partitions")
    if position.anchor not in (Anchor.BEGINNING, Anchor.END):
        raise typer.BadParameter(
            "a group starts where it committed last, or at --from beginning or end; "
            "move it with: penstock group reset-offsets"
        )


def _connect(bootstrap: str, group: str | None, position: Position) -> Consumer:
    settings = {
        # librdkafka wants a group even where none is used.
        "group.id": group or "penstock-cli",
        "enable.auto.commit": False,
        # Ours to say: what librdkafka has handed over is not yet written out.
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # The end of a partition is told when a fetch there comes back empty.
        "fetch.wait.max.ms": 100,
        "auto.offset.reset": "earliest" if position.anchor is Anchor.BEGINNING else "latest",
    }
    return Consumer(client_settings(bootstrap, **settings))


def _targets(bootstrap: str, topic: str, chosen: list[int] | None, position: Position) -> list[TopicPartition]:
    admin = connect_admin(bootstrap)
    partitions = [each for each in partitions_of(admin, topic) if not chosen or each[1] in chosen]
    if not partitions:
        fail(f"there is no such topic or partition: {topic}", do="see the topics with: penstock topic list")
    return [
        TopicPartition(name, number, offset) for (name, number), offset in resolve(admin, partitions, position).items()
    ]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class _Reader:
    def __init__(self, consumer: Consumer, commits: bool, meter: Meter, record_format: RecordFormat) -> None:
        self._consumer = consumer
        self._commits = commits
        self._meter = meter
        self._format = record_format
        self._ended: set[int] = set()
        self._uncommitted = False
        self._committed_at = time.monotonic()
        self.error: KafkaError | None = None

    def assign(self, targets: list[TopicPartition]) -> None:
        self._consumer.assign(targets)

    def subscribe(self, topic: str) -> None:
        self._consumer.subscribe([topic])

    def run(self, count: int | None, exit_at_end: bool, timeout: float | None) -> None:
        active_at = time.monotonic()
        while self.error is None and (count is None or self._meter.records < count):
            limit = BATCH if count is None else min(BATCH, count - self._meter.records)
            if self._take(self._consumer.consume(limit, timeout=TURN_S)):
                active_at = time.monotonic()
            elif timeout is not None and time.monotonic() - active_at >= timeout:
                break
            if exit_at_end and self._at_end():
                break

    def close(self) -> None:
        """What was written out is committed; what was not, is read again by the next member."""
        try:
            if self._uncommitted and self.error is None:
                self._consumer.commit(asynchronous=False)
        except KafkaException as refusal:
            # The last commit in passing had everything already.
            if refusal.args[0].code() != KafkaError._NO_OFFSET:
                raise
        finally:
            self._consumer.close()

    def _take(self, messages: list[Message]) -> int:
        """How many of them were records."""
        lines = []
        size = 0
        for message in messages:
            error = message.error()
            if error is None:
                self._ended.discard(message.partition() or 0)
                lines.append(self._format.write(_record(message)))
                size += len(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(message.partition() or 0)
            else:
                self.error = error
        if lines:
            _write_out(b"\n".join(lines) + b"\n")
            self._meter.add(len(lines), size)
            if self._commits:
                self._store(messages)
                self._commit_now_and_then()
        return len(lines)

    def _store(self, messages: list[Message]) -> None:
        """An interruption before this one makes the next member read them again: twice rather than never."""
        newest = {message.partition(): message for message in messages if message.error() is None}
        for message in newest.values():
            try:
                self._consumer.store_offsets(message=message)
            except KafkaException as refusal:
                # The partition went to another member meanwhile, who reads from the last commit on.
                if refusal.args[0].code() != KafkaError._STATE:
                    raise

    def _commit_now_and_then(self) -> None:
        self._uncommitted = True
        if time.monotonic() - self._committed_at >= COMMIT_EVERY_S:
            self._consumer.commit(asynchronous=True)
            self._committed_at = time.monotonic()

    def _at_end(self) -> bool:
        assigned = {each.partition for each in self._consumer.assignment()}
        return bool(assigned) and assigned <= self._ended


def _write_out(text: bytes) -> None:
    """Under PYTHONUNBUFFERED a write may take a part only, and says so to nobody but its caller."""
    left = memoryview(text)
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def _record(message: Message) -> Record:
    kind, timestamp_ms = message.timestamp()
    headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(headers),
        partition=message.partition(),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        topic=message.topic(),
        offset=message.offset(),
    )
