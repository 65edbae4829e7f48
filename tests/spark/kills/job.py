"""What a driver does here: a topic goes into another topic and into tables, each by a query of its own."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipelines.archive import archive
from penstock.pipelines.core.target import Target
from penstock.pipelines.progress import BatchReport
from penstock.pipelines.topic_stream import TopicRun, beginnings
from penstock.spark.source import PenstockDataSource

SINK = "sink"
ICEBERG_CATALOG, ICEBERG_TABLE = "kills", "lake.orders"
# Many batches, so that a kill meets one in whatever state.
_ROWS_A_BATCH = 500
_EVERY_S = 0.5


class Job(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    source: str
    target: str
    # Of tables and checkpoints: whoever is given it goes on where the last one was.
    directory: str
    # Which tables.
    kinds: tuple[str, ...]
    # How many tasks read a batch, at least, and how many write to the topic: a batch that comes again has others.
    readers: int = 1
    writers: int = 1
    # Up to what is there now; else until something ends it.
    ends: bool = False

    @property
    def queries(self) -> tuple[str, ...]:
        return (SINK, *self.kinds)

    def checkpoint(self, query: str) -> str:
        return f"{self.directory}/checkpoints/{query}"

    def table(self, kind: str) -> Target:
        where = f"{ICEBERG_CATALOG}/{ICEBERG_TABLE}" if kind == "iceberg" else f"{self.directory}/{kind}"
        return Target.parse(f"{kind}:{where}")

    @property
    def catalog(self) -> dict[str, str]:
        """As pyiceberg wants it."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.directory}/catalog.db",
            "warehouse": f"file://{self.directory}/warehouse",
        }

    def start(self, session: SparkSession, pool: Executor) -> list[Future[None]]:
        """A worker of the pool for each query; done when the query is."""
        session.dataSource.register(PenstockDataSource)
        os.makedirs(self.directory, exist_ok=True)
        # Spark finds a sink in Python by the session that is active in this thread.
        sink = self._sink(session)
        tables = [pool.submit(self._archive, session, kind) for kind in self.kinds]
        return [pool.submit(_await, sink), *tables]

    def _sink(self, session: SparkSession) -> StreamingQuery:
        servers = {"kafka.bootstrap.servers": self.bootstrap}
        rows = (
            session.readStream.format("penstock")
            .options(**servers, **self._limits, subscribe=self.source, startingOffsets="earliest")
            .load()
            .selectExpr("concat(partition, '-', offset) AS key", "value")
            .repartition(self.writers)
        )
        writer = rows.writeStream.format("penstock").options(**servers, topic=self.target, delivery="exactly-once")
        writer = writer.option("checkpointLocation", self.checkpoint(SINK))
        every = {"availableNow": True} if self.ends else {"processingTime": f"{round(_EVERY_S * 1000)} milliseconds"}
        return writer.trigger(**every).start()

    def _archive(self, session: SparkSession, kind: str) -> None:
        run = TopicRun(
            bootstrap=self.bootstrap,
            topic=self.source,
            target=self.table(kind),
            starts=beginnings(self.bootstrap, self.source),
            checkpoint=self.checkpoint(kind),
            every_s=None if self.ends else _EVERY_S,
            options=self._limits,
        )
        archive(session, run, None, _untold)

    @property
    def _limits(self) -> dict[str, str]:
        return {"maxOffsetsPerTrigger": str(_ROWS_A_BATCH), "minPartitions": str(self.readers)}


def _await(query: StreamingQuery) -> None:
    query.awaitTermination()


def _untold(_: BatchReport) -> None:
    """Nobody looks."""
