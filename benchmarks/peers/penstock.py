"""Penstock, started as a user would start it."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers.broker import Broker, Durability, free_ports


class Penstock:
    name = "penstock"

    def prepare(self) -> None:
        """Nothing to fetch: it is this repository."""

    def launch(self, directory: Path, durability: Durability) -> Broker:
        port, http_port = free_ports(2)
        arguments = [sys.executable, "-m", "penstock", "serve", "--listen", f"127.0.0.1:{port}"]
        arguments += ["--http", f"127.0.0.1:{http_port}"]
        arguments += ["--data-dir", str(directory / "data")]
        for setting in _settings(durability):
            arguments += ["--set", setting]
        return Broker(self.name, arguments, port, directory / "log")

    def settings_of(self, durability: Durability) -> str:
        return ", ".join(_settings(durability)) or "as delivered (flush.policy=acked)"


def _settings(durability: Durability) -> list[str]:
    """FSYNC needs no word: `acked` is the default."""
    return ["flush.policy=os"] if durability is Durability.OS else []
