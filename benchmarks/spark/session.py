"""One Spark session and one broker, and both data sources on them in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from benchmarks.load.job import LoadFailed
from benchmarks.load.produce import Produce
from benchmarks.machine import settled
from benchmarks.peers.broker import Durability
from benchmarks.peers.penstock import Penstock
from benchmarks.session import generate
from benchmarks.spark.cases import PARTITIONS, Case
from benchmarks.spark.meter import Meter
from benchmarks.spark.ready_made import ReadyMadeSource
from benchmarks.spark.works import Place
from benchmarks.topics import create_topic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from benchmarks import usage

_REPOSITORY = Path(__file__).parents[2]
_SINK_TOPIC = "bench-out"
MASTER = "local[2]"


class SparkSide:
    """Everything a measurement needs, from `with` to its end."""

    def __init__(self, broker: Penstock, directory: Path, jars: Sequence[Path]) -> None:
        self._stack = ExitStack()
        self._broker = broker
        self._directory = directory
        self._jars = jars
        self._runs = 0

    def __enter__(self) -> SparkSide:
        home = self._directory / "broker"
        home.mkdir()
        self._cluster = self._stack.enter_context(self._broker.launch(home, Durability.OS))
        self._cluster.await_listening()
        before = usage.family(os.getpid())
        self._spark = _session(self._jars, self._directory)
        self._stack.callback(self._spark.stop)
        (self.jvm_pid,) = (
            pid
            for pid, stat in usage.family(os.getpid()).items()
            if pid not in before and stat.parent_pid == os.getpid()
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def broker_pids(self) -> list[int]:
        return self._cluster.broker_pids

    def fill(self, cases: Sequence[Case]) -> None:
        """Raises LoadFailed."""
        create_topic(self._cluster.address, _SINK_TOPIC, PARTITIONS, replicas=1)
        for filling in dict.fromkeys(case.filling for case in cases):
            if filling is not None:
                create_topic(self._cluster.address, filling.topic, filling.partitions, replicas=1)
                generate(
                    Produce(
                        address=self._cluster.address,
                        broker_pids=tuple(self.broker_pids),
                        topic=filling.topic,
                        messages=filling.rows,
                        message_bytes=filling.row_bytes,
                    )
                )

    def measure(self, case: Case, side: str) -> dict[str, float]:
        """Raises LoadFailed."""
        self._runs += 1
        place = Place(
            spark=self._spark,
            format=side,
            address=self._cluster.address,
            topic="" if case.filling is None else case.filling.topic,
            sink_topic=_SINK_TOPIC,
            checkpoint=str(self._directory / f"checkpoint-{self._runs}"),
        )
        try:
            with settled(), Meter(self.jvm_pid, self.broker_pids) as meter:
                told = case.work.run(place)
        except PySparkException as error:
            raise LoadFailed(str(error).partition("\n")[0]) from error
        return {**case.work.metrics(meter.usage), **told}


def _session(jars: Sequence[Path], directory: Path) -> SparkSession:
    # Workers find this repository's modules, and are the Python that runs here.
    paths = [str(_REPOSITORY), str(_REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.jars": ",".join(str(jar) for jar in jars),
    }
    builder = SparkSession.builder.master(MASTER).appName("penstock benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(ReadyMadeSource)
    return session
