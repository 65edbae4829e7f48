"""A driver in a process of its own, with two executors that are processes of their own too."""

from __future__ import annotations

import os
import sys
import traceback
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import msgspec
from tests.spark.kills.job import ICEBERG_CATALOG, Job

from penstock.pipelines.session import spark_session

_MASTER = "local-cluster[2,1,512]"
_SETTINGS = {
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0",
}


def main(text: str) -> None:
    job = msgspec.json.decode(text, type=Job)
    for name, value in job.catalog.items():
        os.environ[f"PYICEBERG_CATALOG__{ICEBERG_CATALOG.upper()}__{name.upper()}"] = value
    pool = ThreadPoolExecutor(len(job.queries))
    with spark_session("kills", _MASTER, _SETTINGS) as session:
        done, _ = wait(job.start(session, pool), return_when=FIRST_EXCEPTION)
        errors = [error for future in done if (error := future.exception()) is not None]
        if errors:
            # The others are not asked to end: whatever a driver ends by, it has to be taken.
            traceback.print_exception(errors[0])
            sys.stderr.flush()
            os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
