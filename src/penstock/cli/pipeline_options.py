"""What all commands of `penstock pipeline run` share: options, and how they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from pyspark.errors import PySparkException

from penstock.cli.connection import connect_admin
from penstock.cli.connection import refusals_told as broker_refusals_told
from penstock.cli.core.last_words import last_words
from penstock.cli.core.position import WANTED
from penstock.cli.failure import fail
from penstock.cli.offsets import partitions_of, position_argument, resolve
from penstock.errors import PenstockError
from penstock.pipelines.core import target as tables
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.spark.core.topic_partition import TopicPartition

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC")]
ToOption = Annotated[str, typer.Option("--to", metavar="TABLE", help=tables.WANTED)]
FromOption = Annotated[str, typer.Option("--from", help=f"Where the first run begins: {WANTED}")]
MasterOption = Annotated[str, typer.Option(help="The Spark cluster: local[N], spark://HOST:PORT, yarn, k8s://…")]
CheckpointOption = Annotated[
    str | None, typer.Option(metavar="DIR", help="Spark's memory of how far it is. Within the table if left out.")
]
ContinuousOption = Annotated[bool, typer.Option("--continuous", help="Go on with what arrives, until stopped.")]
EveryOption = Annotated[float, typer.Option(min=0.1, help="With --continuous: seconds from one batch to the next.")]
GroupOption = Annotated[str | None, typer.Option(help="A consumer group that shows progress and lag.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Of docs/spark.md; may be repeated.")
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]


@contextmanager
def told() -> Iterator[None]:
    """Refusals in words, whoever refuses."""
    try:
        yield
    except (PipelineRefused, PenstockError) as refusal:
        fail(str(refusal))
    except PySparkException as error:
        fail(f"Spark gave up: {last_words(str(error))}", do="nothing half-written is left; run it again to go on")
    except OSError as error:
        fail(f"a file cannot be used: {error}", do="nothing half-written is left; run it again to go on")


def starts_of(
    bootstrap: str, topic: str, begin: str, missing: str = "see the topics with: penstock topic list"
) -> dict[TopicPartition, int]:
    """`missing`: what to do if there is no such topic."""
    position = position_argument(begin)
    admin = connect_admin(bootstrap)
    with broker_refusals_told(bootstrap):
        partitions = partitions_of(admin, topic)
        if not partitions:
            fail(f"there is no topic {topic}", do=missing)
        return {TopicPartition(*partition): start for partition, start in resolve(admin, partitions, position).items()}


def assignments(flag: str, given: list[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=flag)
        found[name] = value
    return found
