"""Real ZooKeeper servers for tests, with the ways in which they fail."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from penstock.config.coordination import CoordinationSettings, CoordinationTarget
from penstock.coordination.zookeeper_server import ZooKeeperServer, ensemble


@dataclasses.dataclass(frozen=True)
class TestZooKeeper:
    # pytest takes it for a class of tests otherwise.
    __test__ = False

    servers: list[ZooKeeperServer]

    def target(self, chroot: str = "") -> str:
        """What the setting `coordination` takes."""
        return str(CoordinationTarget(tuple(server.address for server in self.servers), chroot))

    def settings(self, chroot: str = "") -> CoordinationSettings:
        return CoordinationSettings(coordination=CoordinationTarget.parse(self.target(chroot)))

    def leader(self) -> ZooKeeperServer:
        """Of an ensemble that is ready."""
        return next(server for server in self.servers if server.mode() in ("leader", "standalone"))


@contextmanager
def zookeeper(size: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[TestZooKeeper]:
    """`size` servers, ready when the block begins and gone, with their data, when it ends. A start takes a second.

    `settings` go to the servers' configuration as they are.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-zookeeper-") as directory, ExitStack() as stack:
        servers = ensemble(directory, size, settings=settings)
        for server in servers:
            stack.callback(server.stop)
            server.start()
        for server in servers:
            server.wait_until_ready()
        yield TestZooKeeper(servers)
