"""What the recording clients share: they run until SIGTERM, and know their topic and cluster from the command line."""

from __future__ import annotations

import argparse
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

TOPIC = "orders"
GROUP = "billing"

# Little patience with connections, endless patience with messages.
CLIENT: dict[str, str | int | float | bool] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 5_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "socket.timeout.ms": 5_000,
    "log_level": 3,
}


@dataclass(frozen=True)
class ClientArguments:
    name: str
    bootstrap: str
    topic: str
    partitions: int
    group: str
    rate: float
    histories: Path
    run_s: float
    # Of members: which protocol, and near which brokers they are.
    protocol: str = "classic"
    rack: str = ""
    # Of workers: where to, and how long one of their transactions may take.
    output: str = ""
    transaction_ms: int = 10_000

    def to_command(self) -> list[str]:
        command = ["--name", self.name, "--bootstrap", self.bootstrap, "--topic", self.topic, "--group", self.group]
        command += ["--partitions", str(self.partitions), "--rate", str(self.rate), "--run-s", str(self.run_s)]
        command += ["--histories", str(self.histories)]
        command += ["--protocol", self.protocol, "--rack", self.rack]
        return [*command, "--output", self.output, "--transaction-ms", str(self.transaction_ms)]


def parsed_arguments() -> ClientArguments:
    parser = argparse.ArgumentParser()
    for name in ("name", "bootstrap", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--group", default=GROUP)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--run-s", type=float, default=7200)
    parser.add_argument("--histories", type=Path, required=True)
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    parser.add_argument("--rack", default="")
    parser.add_argument("--output", default="")
    parser.add_argument("--transaction-ms", type=int, default=10_000)
    return ClientArguments(**vars(parser.parse_args()))


def until_told() -> threading.Event:
    """Set by SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    return stopping
