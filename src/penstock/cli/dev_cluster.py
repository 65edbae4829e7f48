"""`penstock dev-cluster`: a whole cluster on this machine, to develop against and to break."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from penstock.cli.broker_processes import BrokerProcess, BrokerProcesses
from penstock.cli.failure import EXIT_USAGE, fail, say
from penstock.cli.output import Output, OutputOption, show_fields
from penstock.config.address import Address
from penstock.coordination.zookeeper_server import ZooKeeperServer, free_ports
from penstock.errors import PenstockError

_HOST = "127.0.0.1"
# HTTP ports stand as far from those for Kafka clients as they do by default: 9092 and 9324.
_HTTP_DISTANCE = 9324 - 9092
_READY_S = 60.0
_LOOK_S = 0.2

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _Stopped(Exception):
    """By Ctrl-C or SIGTERM."""


@app.command(epilog="Example: penstock dev-cluster --brokers 3 --set flush.policy=os")
def dev_cluster(
    brokers: Annotated[int, typer.Option(metavar="N", min=1, max=50, help="How many brokers.")] = 3,
    data_dir: Annotated[Path, typer.Option(metavar="DIR", help="Where all of them keep their data.")] = Path(
        "dev-cluster"
    ),
    base_port: Annotated[
        int, typer.Option(metavar="P", min=1, max=60_000, help="Port of the first broker; the others follow.")
    ] = 9092,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting for all brokers; repeatable.")
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """A ZooKeeper and several brokers, a process each, until Ctrl-C. What they stored is there at the next start.

    Topics have three replicas there, two of which must be in sync, unless they or --set say otherwise.
    """
    try:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)
        _run(_planned(brokers, data_dir.absolute(), base_port, assignments or []), data_dir.absolute(), output)
    except _Stopped:
        say("stopped")
    except PenstockError as error:
        fail(str(error))
    except OSError as error:
        fail(f"the cluster cannot be started: {error}", code=EXIT_USAGE)


def _stop(number: int, frame: FrameType | None) -> None:
    # Once: what is stopping is not to be interrupted again.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise _Stopped


def _planned(count: int, data_dir: Path, base_port: int, assignments: list[str]) -> list[tuple[BrokerProcess, Address]]:
    planned = []
    assignments = [*_replicated(count), *assignments]
    for node_id in range(1, count + 1):
        kafka = Address(_HOST, base_port + node_id - 1)
        http = Address(_HOST, kafka.port + _HTTP_DISTANCE)
        home = data_dir / f"broker-{node_id}"
        arguments = ["--node-id", str(node_id), "--listen", str(kafka), "--http", str(http), "--data-dir", str(home)]
        arguments += [argument for text in assignments for argument in ("--set", text)]
        planned.append((BrokerProcess(f"broker {node_id}", arguments, http, f"{home}.log"), kafka))
    return planned


def _replicated(count: int) -> list[str]:
    """What somebody tries a cluster for; what is given by --set comes later, and wins."""
    return [f"default.replication.factor={min(3, count)}", f"min.insync.replicas={2 if count > 2 else 1}"]


def _run(planned: list[tuple[BrokerProcess, Address]], data_dir: Path, output: Output) -> None:
    begun_s = time.monotonic()
    os.makedirs(data_dir, exist_ok=True)
    zookeeper = ZooKeeperServer(str(data_dir / "zookeeper"), free_ports(1)[0])
    target = f"zookeeper://{zookeeper.address}/penstock"
    brokers = [broker._replace(arguments=[*broker.arguments, "--coordination", target]) for broker, _ in planned]
    try:
        zookeeper.start()
        zookeeper.wait_until_ready()
        with BrokerProcesses(brokers) as running:
            for trouble in running.wait_until_ready(time.monotonic() + _READY_S):
                fail(trouble)
            bootstrap = ",".join(str(kafka) for _, kafka in planned)
            logs = [broker.log_path for broker in brokers]
            show_fields(output, {"bootstrap_servers": bootstrap, "zookeeper": target, "logs": logs})
            # Whoever reads it through a pipe waits for this.
            sys.stdout.flush()
            say(f"ready after {time.monotonic() - begun_s:.1f} s; Ctrl-C stops it")
            while len(running):
                for ending in running.take_ended():
                    say(ending)
                time.sleep(_LOOK_S)
            fail("no broker is left")
    finally:
        zookeeper.stop()
