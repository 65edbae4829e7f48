"""A standalone cluster of Spark: a master and workers, each a process of its own, on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pyspark
from tests.interop.waiting import eventually

from penstock.coordination.zookeeper_server import free_ports

_HOME = Path(pyspark.__file__).parent
_PACKAGE = "org.apache.spark.deploy"
_START_S = 120.0
_STOP_S = 30.0
# One executor on each, that takes all of it.
WORKER_MEMORY = "700m"


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """Its master's URL, when all workers, of one core each, have joined it."""
    port, http_port = free_ports(2)
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(http_port)]
        stack.enter_context(_daemon(directory / "master.log", "master.Master", *where))
        for number in range(workers):
            size = ["--cores", "1", "--memory", WORKER_MEMORY]
            home = directory / f"worker-{number}"
            where = ["--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(home)]
            stack.enter_context(_daemon(directory / f"worker-{number}.log", "worker.Worker", *where, *size, url))
        eventually(lambda: _alive_workers(http_port) == workers, "all workers are there", _START_S)
        yield url


@contextmanager
def _daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    environment = {
        **os.environ,
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(_HOME / "bin" / "spark-class"), f"{_PACKAGE}.{name}", *arguments],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        # A worker ends its executors first.
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _alive_workers(http_port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{http_port}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0
