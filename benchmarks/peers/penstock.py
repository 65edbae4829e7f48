"""Penstock, installed and started as a user would: what a developer adds is not there, and so not measured."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.broker import Broker, Cluster, Durability, PeerUnavailable, cache_directory, free_ports
from benchmarks.peers.trio import Trio

from penstock.coordination.zookeeper_server import ZooKeeperServer
from penstock.coordination.zookeeper_server import free_ports as zookeeper_ports
from penstock.errors import PenstockError

_REPOSITORY = Path(__file__).parents[2]
_INSTALL_S = 600
# The system's own is built with all optimisations, as the JVM beside it is; one built by hand may lack a quarter.
_SYSTEM_PYTHON = Path("/usr/bin/python3")
_IS_NEW_ENOUGH = "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"


class Penstock:
    name = "penstock"

    def prepare(self) -> None:
        """An environment of its own, made anew when what it holds or stands on has changed."""
        base = _base_python()
        wanted = (
            (_REPOSITORY / "pyproject.toml").read_bytes() + str(base.resolve()).encode() + str(_REPOSITORY).encode()
        )
        self._environment = cache_directory() / f"penstock-{hashlib.sha256(wanted).hexdigest()[:12]}"
        complete = self._environment / "complete"
        if not complete.exists():
            _run([str(base), "-m", "venv", "--clear", str(self._environment)])
            _run([*self._pip_install, str(_REPOSITORY)])
            complete.touch()
        # As it is now, and with its bytecode, which a run from the sources may not be allowed to leave there.
        _run([*self._pip_install, "--force-reinstall", "--no-deps", str(_REPOSITORY)])

    def launch(self, directory: Path, durability: Durability) -> Cluster:
        if durability.replicas == 1:
            return self._launch_one(directory, durability)
        zookeeper = ZooKeeperServer(str(directory / "zookeeper"), zookeeper_ports(1)[0])
        try:
            zookeeper.start()
            zookeeper.wait_until_ready()
        except PenstockError as error:
            zookeeper.stop()
            raise PeerUnavailable(str(error)) from error
        brokers = []
        for node_id in range(1, durability.replicas + 1):
            home = directory / f"broker-{node_id}"
            home.mkdir()
            cluster = ["--node-id", str(node_id), "--coordination", f"zookeeper://{zookeeper.address}/bench"]
            brokers.append(self._launch_one(home, durability, cluster))
        return Trio(brokers, zookeeper)

    def _launch_one(self, directory: Path, durability: Durability, more: Sequence[str] = ()) -> Broker:
        port, http_port = free_ports(2)
        arguments = [self._python, "-m", "penstock", "serve", "--listen", f"127.0.0.1:{port}"]
        arguments += ["--http", f"127.0.0.1:{http_port}"]
        arguments += ["--data-dir", str(directory / "data"), *more]
        for setting in _settings(durability):
            arguments += ["--set", setting]
        return Broker(self.name, arguments, port, directory / "log")

    def settings_of(self, durability: Durability) -> str:
        return ", ".join(_settings(durability)) or "as delivered (flush.policy=acked)"

    def version(self) -> str:
        return _run([self._python, "-VV"]).strip()

    @property
    def _pip_install(self) -> list[str]:
        return [self._python, "-m", "pip", "install", "--quiet"]

    @property
    def _python(self) -> str:
        return str(self._environment / "bin" / "python")


def _settings(durability: Durability) -> list[str]:
    """FSYNC needs no word: `acked` is the default."""
    return ["flush.policy=os"] if durability in (Durability.OS, Durability.RF3_OS) else []


def _base_python() -> Path:
    if _SYSTEM_PYTHON.exists() and subprocess.run([_SYSTEM_PYTHON, "-c", _IS_NEW_ENOUGH], check=False).returncode == 0:
        return _SYSTEM_PYTHON
    return Path(sys.executable)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    except subprocess.TimeoutExpired as slow:
        raise PeerUnavailable(f"{' '.join(command)} did not end within {_INSTALL_S} s") from slow
    if done.returncode != 0:
        raise PeerUnavailable(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
