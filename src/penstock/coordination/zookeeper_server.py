"""A ZooKeeper server as a child process, for a development cluster and for tests. It ends with whoever started it.

Its jars come with pyspark or Debian's `zookeeper` package, so nothing has to be downloaded for it.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from penstock.config.address import Address
from penstock.errors import PenstockError, Problem

_LOOPBACK = "127.0.0.1"
_OLDEST_JAVA = 17
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# All jars of Spark would do too, but opening them takes three seconds.
_PYSPARK_JARS = ("zookeeper-*", "slf4j-api-*", "netty-*", "metrics-core-*", "snappy-java-*")
_DEBIAN_JARS = ("zookeeper*", "slf4j-api*", "slf4j-simple*", "netty*", "metrics-core*", "commons-cli*", "log4j-1.2*")
_DEBIAN_DIRECTORY = "/usr/share/java"
# Small and quick to start rather than fast for long: it holds some thousand nodes.
_JVM_OPTIONS = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.preAllocSize=1024")
# Below the range from which the system takes ports for outgoing connections, so that a server that was killed finds
# its port free when it comes back.
_PORTS = range(20_000, 32_000)
_POLL_SECONDS = 0.02
_STOP_SECONDS = 5.0

# Whoever forks could die before the child asks to die with it: hence the second look. The request outlives exec.
_END_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_this_process(command: Sequence[str]) -> list[str]:
    """The command, killed when the thread that starts it ends, however it ends: start it from one that stays."""
    return [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid()), *command]


def free_ports(count: int) -> list[int]:
    """Of the loopback interface; free a moment ago."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise PenstockError(Problem.STORAGE_FAILED, f"no {count} free ports from {_PORTS[0]} to {_PORTS[-1]}")


class ZooKeeperServer:
    """One server, on loopback. Everything here blocks. Start it from a thread that lives as long as it should."""

    def __init__(self, directory: str, port: int, *, settings: Mapping[str, str] | None = None) -> None:
        """`settings` go to its configuration as they are, over the defaults."""
        self.address = Address(_LOOPBACK, port)
        self._directory = directory
        self._settings = {
            "tickTime": "500",
            "initLimit": "20",
            "syncLimit": "6",
            "dataDir": os.path.join(directory, "data"),
            "clientPort": str(port),
            "clientPortAddress": _LOOPBACK,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            "autopurge.purgeInterval": "1",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def output_path(self) -> str:
        return os.path.join(self._directory, "output")

    def start(self) -> None:
        """Raises PenstockError that says what to install. Returns at once: `wait_until_ready` waits."""
        os.makedirs(self._settings["dataDir"], exist_ok=True)
        configuration = os.path.join(self._directory, "zoo.cfg")
        with open(configuration, "w") as file:
            file.writelines(f"{name}={value}\n" for name, value in self._settings.items())
        command = [java(), *_JVM_OPTIONS, "-cp", ":".join(jars()), _MAIN, configuration]
        with open(self.output_path, "ab") as output:
            self._process = subprocess.Popen(
                ending_with_this_process(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A Ctrl-C is for those who started it: they stop it when nobody needs it any more.
                start_new_session=True,
            )

    def wait_until_ready(self, timeout_seconds: float = 30) -> None:
        """Until it serves, as one of an ensemble too. Raises PenstockError if it ends or stays silent."""
        deadline = time.monotonic() + timeout_seconds
        while self.mode() is None:
            if self._running().poll() is not None or time.monotonic() > deadline:
                raise PenstockError(Problem.STORE_UNAVAILABLE, self._silence())
            time.sleep(_POLL_SECONDS)

    def mode(self) -> str | None:
        """`standalone`, `leader` or `follower`; None while it does not serve."""
        try:
            with socket.create_connection((self.address.host, self.address.port), timeout=1) as link:
                link.sendall(b"srvr")
                reply = b"".join(iter(lambda: link.recv(4096), b""))
        except OSError:
            return None
        found = re.search(rb"^Mode: (\w+)", reply, re.MULTILINE)
        return found[1].decode() if found else None

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a crash would. What it has answered is on disk; `start` goes on from there."""
        self._running().kill()
        self._running().wait()

    def stop(self) -> None:
        """For good or until `start`; also one that is paused, dead or was never started."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise PenstockError(Problem.STORE_UNAVAILABLE, f"the ZooKeeper server of {self.address} was never started")
        return self._process

    def _silence(self) -> str:
        with open(self.output_path, errors="replace") as output:
            said = output.read()[-1000:].strip()
        code = self._running().poll()
        what = "does not answer" if code is None else f"ended with exit code {code}"
        return f"the ZooKeeper server of {self.address} {what}; it said: {said or 'nothing'}"


def ensemble(directory: str, size: int, *, settings: Mapping[str, str] | None = None) -> list[ZooKeeperServer]:
    """Servers that know each other (one: on its own), each in a directory of its own. None of them is started."""
    ports = free_ports(3 * size)
    clients, peers, elections = ports[:size], ports[size : 2 * size], ports[2 * size :]
    members = {f"server.{n + 1}": f"{_LOOPBACK}:{peers[n]}:{elections[n]}" for n in range(size)} if size > 1 else {}
    servers = []
    for n in range(size):
        home = os.path.join(directory, f"zookeeper-{n + 1}")
        os.makedirs(os.path.join(home, "data"), exist_ok=True)
        with open(os.path.join(home, "data", "myid"), "w") as file:
            file.write(str(n + 1))
        servers.append(ZooKeeperServer(home, clients[n], settings={**members, **(settings or {})}))
    return servers


def java() -> str:
    """The path of a Java that is new enough; raises PenstockError."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"install Java {_OLDEST_JAVA} or newer (apt-get install openjdk-17-jre-headless)"
    if path is None or not os.path.exists(path):
        raise PenstockError(Problem.INVALID_CONFIG, f"ZooKeeper needs Java, which is not here: {advice}")
    if _java_version(path) < _OLDEST_JAVA:
        raise PenstockError(Problem.INVALID_CONFIG, f"ZooKeeper needs a newer Java than {path}: {advice}")
    return path


@functools.cache
def _java_version(path: str) -> int:
    told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def jars() -> list[str]:
    """ZooKeeper and what it needs; raises PenstockError."""
    spark = importlib.util.find_spec("pyspark")
    places: list[tuple[str, tuple[str, ...]]] = [(_DEBIAN_DIRECTORY, _DEBIAN_JARS)]
    if spark is not None and spark.submodule_search_locations:
        places.insert(0, (os.path.join(spark.submodule_search_locations[0], "jars"), _PYSPARK_JARS))
    for directory, patterns in places:
        found = [sorted(glob.glob(os.path.join(directory, f"{pattern}.jar"))) for pattern in patterns]
        if found[0]:
            return [jar for each in found for jar in each]
    raise PenstockError(
        Problem.INVALID_CONFIG,
        "ZooKeeper's jars are not here: install pyspark (pip install pyspark) or, on Debian, zookeeper",
    )
