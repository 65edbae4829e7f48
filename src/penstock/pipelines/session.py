"""The Spark session of a pipeline that is run as a command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from penstock.pipelines.core.refusal import PipelineRefused

_SETTINGS = {
    # Hours of tables are in UTC, whatever the host's clock shows.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Spark's 200 are for clusters; a stateful query keeps for good what it began with.
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def spark_session(name: str, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Stopped at the end; one that is active already is taken as it is. `settings` win over those of pipelines."""
    # Tasks run in the Python that has Penstock: the one that this command runs in.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # It logs what goes wrong in a batch, with its traceback; the command says it in words.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    builder = SparkSession.builder.appName(f"penstock {name}").master(master)
    for key, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise PipelineRefused(
            f"Spark does not start ({error}): it needs a Java runtime, 17 or newer, as `java` or in JAVA_HOME"
        ) from None
    try:
        yield session
    finally:
        session.stop()
