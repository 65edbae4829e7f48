"""`penstock serve`: run a node."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer
import uvloop

from penstock.cli.broker_processes import end_with_parent
from penstock.cli.failure import EXIT_USAGE, fail
from penstock.cli.host_processes import host_processes
from penstock.cli.supervisor import Supervisor
from penstock.clock import SystemClock
from penstock.config.load import load_settings, parse_assignment
from penstock.config.settings import Settings
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem
from penstock.telemetry.logs import configure_logging

logger = logging.getLogger(__name__)

# Files of the log, the HTTP port, ZooKeeper, standard streams: what a node opens beside its clients' connections.
OWN_DESCRIPTORS = 2_000

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Example: penstock serve --data-dir /var/lib/penstock --set retention.ms=86400000")
def serve(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings in TOML.")] = None,
    data_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Where everything durable is kept.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where Kafka clients connect.")] = None,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where /metrics and /health are.")] = None,
    node_id: Annotated[str | None, typer.Option(metavar="N", help="The broker id that clients see.")] = None,
    rack: Annotated[str | None, typer.Option(metavar="NAME", help="The failure domain of this node.")] = None,
    coordination: Annotated[
        str | None, typer.Option(metavar="WHERE", help="embedded, or zookeeper://HOST:PORT,HOST:PORT/CHROOT.")
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=64,
            help="Brokers on this host, a process each, as many as it has cores: process i has node.id + i, both "
            "ports + i, and its data in DIR/i. Needs ZooKeeper.",
        ),
    ] = 1,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any setting; may be repeated. See docs/reference/settings.md."
        ),
    ] = None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C. Flags win over PENSTOCK_... variables, which win over the file.

    With --processes, a process that ends is started again, after 1 to 30 seconds; one that cannot start for the first
    time ends all, with its exit code. They stop one after another. Under systemd: KillMode=mixed, Restart=on-failure.
    """
    named = {"data.dir": data_dir, "listen": listen, "http": http, "node.id": node_id, "broker.rack": rack}
    named["coordination"] = coordination
    flags = {name: text for name, text in named.items() if text is not None}
    try:
        flags.update(parse_assignment(text) for text in assignments or [])
        settings = load_settings(file_text=_read(config), file_name=str(config), environment=os.environ, flags=flags)
    except PenstockError as error:
        fail(str(error), code=EXIT_USAGE)
    fields = {} if parent is None else {"broker": settings.node.node_id}
    configure_logging(settings.logging.log_format, settings.logging.log_level, fields=fields)
    if processes > 1:
        _run_several(settings, processes, flags, None if config is None else str(config))
    _raise_descriptor_limit(settings.network.max_connections)
    try:
        uvloop.run(_run(settings, parent))
    except PenstockError as error:
        fail(str(error))
    except OSError as error:
        fail(f"the node cannot start: {error}", do="see whether another one uses the same port or directory")


def _run_several(settings: Settings, count: int, flags: Mapping[str, str], config: str | None) -> NoReturn:
    try:
        brokers = host_processes(settings, count, flags, config, os.getpid())
    except PenstockError as error:
        fail(str(error), code=EXIT_USAGE)
    raise typer.Exit(Supervisor(brokers).run())


async def _run(settings: Settings, parent: int | None) -> None:
    # Here, because every other command would wait for it too.
    from penstock.node.assemble import running

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_once(received: signal.Signals) -> None:
        logger.info("node.stopping", extra={"signal": received.name, "do": "send it again to stop at once"})
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            # The second one ends the process; the log recovers from that as from any crash. Not where a parent decides
            # on that: whoever stops all processes of a service sends it the first, and the parent the second.
            signal.signal(each, signal.SIG_DFL if parent is None else signal.SIG_IGN)
        stop.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop_once, each)
    if parent is not None and not end_with_parent(parent, signal.SIGTERM):
        raise PenstockError(Problem.INVALID_REQUEST, "the process that started this one is gone")
    async with running(settings, SystemClock(), LocalDisk()) as node:
        await node.until(stop)
    logger.info("node.stopped")


def _read(config: Path | None) -> str | None:
    if config is None:
        return None
    try:
        return config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PenstockError(Problem.INVALID_CONFIG, f"cannot read {config}: {error}") from None


def _raise_descriptor_limit(max_connections: int) -> None:
    """The usual limit of 1,024 is for programs without clients; the hard limit is the one that was meant."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max_connections + OWN_DESCRIPTORS
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < possible:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    if possible < wanted:
        logger.warning(
            "descriptors.few",
            extra={"limit": possible, "wanted": wanted, "do": "raise `ulimit -n` or lower max.connections"},
        )
