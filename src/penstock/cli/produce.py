"""`penstock produce`: lines or JSON from a file or a pipe into a topic."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, BinaryIO

import typer
from confluent_kafka import KafkaError, Message, Producer

from penstock.cli.connection import DEFAULT_BOOTSTRAP, BootstrapOption, client_settings, fail_with, refusals_told
from penstock.cli.core.records import BadLine, JsonLines, Lines, Record, RecordFormat
from penstock.cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, fail
from penstock.cli.output import Output, OutputOption
from penstock.cli.progress import Meter

# How long a record may wait for its acknowledgement before the command gives up.
DELIVERY_TIMEOUT_MS = 60_000


class Input(Enum):
    LINES = "lines"
    JSON = "json"


class Acks(Enum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(Enum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example: echo 'a:1' | penstock produce orders --key-separator :")
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="What to read; - is standard input.")] = "-",
    input_format: Annotated[
        Input,
        typer.Option("--input", "-i", help="lines: a value each. json: key, value, headers, partition, timestamp."),
    ] = Input.LINES,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Lines hold a key, this, and a value.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Send there; by key if left out.")] = None,
    acks: Annotated[Acks, typer.Option(help="Who must have a record before it counts as sent.")] = Acks.ALL,
    compression: Annotated[Compression, typer.Option(help="How batches are compressed.")] = Compression.NONE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send records to a topic, one per line of input. Stops at the first that is wrong or refused."""
    if key_separator is not None and input_format is Input.JSON:
        raise typer.BadParameter("--key-separator goes with lines; JSON names its key")
    record_format: RecordFormat = JsonLines() if input_format is Input.JSON else Lines(key_separator)
    stream = _open(file)
    settings = client_settings(
        bootstrap,
        **{
            "acks": acks.value,
            # Retries neither repeat nor reorder; it needs acks=all.
            "enable.idempotence": acks is Acks.ALL,
            "compression.type": compression.value,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            "linger.ms": 5,
        },
    )
    with refusals_told(bootstrap), Meter("produced", total_bytes=_size(stream)) as meter:
        sender = _Sender(Producer(settings), topic, partition, meter)
        try:
            problem = sender.send_all(_records(stream, record_format))
        except KeyboardInterrupt:
            problem = "interrupted"
        sender.finish()
    meter.finish(output)
    if sender.error is not None:
        fail_with(sender.error, bootstrap)
    if problem:
        fail(problem, code=EXIT_INTERRUPTED if problem == "interrupted" else EXIT_USAGE)


def _open(file: str) -> BinaryIO:
    if file == "-":
        return sys.stdin.buffer
    try:
        return open(os.fspath(file), "rb")
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", code=EXIT_USAGE)


def _size(stream: BinaryIO) -> int | None:
    """Of a file; a pipe has none. The bar comes close: keys and values are nearly all of it."""
    try:
        return os.fstat(stream.fileno()).st_size or None
    except OSError:
        return None


def _records(stream: BinaryIO, record_format: RecordFormat) -> Iterator[Record]:
    for number, line in enumerate(stream, start=1):
        try:
            yield record_format.read(line.removesuffix(b"\n"))
        except BadLine as error:
            raise BadLine(f"line {number}: {error}") from None


class _Sender:
    """Hands records to librdkafka and counts what was acknowledged."""

    def __init__(self, producer: Producer, topic: str, partition: int | None, meter: Meter) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._meter = meter
        self.error: KafkaError | None = None

    def send_all(self, records: Iterator[Record]) -> str:
        """What was wrong with the input, if anything; a refusal is in `error`."""
        try:
            for record in records:
                self._send(record)
                self._producer.poll(0)
                if self.error is not None:
                    break
        except BadLine as problem:
            return str(problem)
        return ""

    def finish(self) -> None:
        """Wait for the acknowledgement of everything that was handed over."""
        if self.error is not None:
            self._producer.purge()
        self._producer.flush()

    def _send(self, record: Record) -> None:
        where: dict[str, Any] = {}
        partition = record.partition if record.partition is not None else self._partition
        if partition is not None:
            where["partition"] = partition
        if record.timestamp_ms is not None:
            where["timestamp"] = record.timestamp_ms
        headers: list[tuple[str, str | bytes | None]] = list(record.headers)
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, headers=headers, on_delivery=self._delivered, **where
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._meter.add(1, len(message))
        elif self.error is None:
            self.error = error
