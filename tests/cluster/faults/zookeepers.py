"""ZooKeeper servers of a test cluster, all in one place, each of which can fail."""

from __future__ import annotations

import time
from pathlib import Path

from tests.cluster.faults.network import Place

from penstock.coordination.zookeeper_server import ZooKeeperServer, ensemble

# From the moment on in which most of them can talk to each other.
READY_S = 60


class ZooKeepers:
    def __init__(self, place: Place, directory: Path, size: int) -> None:
        self.place = place
        # Among themselves they talk by loopback. In a place of their own brokers come from outside.
        settings = {} if place.host == "127.0.0.1" else {"clientPortAddress": "0.0.0.0"}
        self.servers = ensemble(str(directory), size, settings=settings)

    def start(self) -> None:
        for server in self.servers:
            self.place.run(server.start)
        for server in self.servers:
            self.place.run(server.wait_until_ready)

    def target(self, chroot: str = "") -> str:
        """What the setting `coordination` takes."""
        return "zookeeper://" + ",".join(f"{self.place.host}:{server.address.port}" for server in self.servers) + chroot

    def leader(self) -> ZooKeeperServer | None:
        return self._of_mode("leader", "standalone")

    def follower(self) -> ZooKeeperServer | None:
        return self._of_mode("follower")

    def restart(self, server: ZooKeeperServer) -> None:
        self.place.run(server.start)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        for server in self.servers:
            self.place.run(lambda server=server: server.wait_until_ready(max(1.0, deadline - time.monotonic())))  # type: ignore[misc]

    def stop(self) -> None:
        for server in self.servers:
            self.place.run(server.stop)

    def _of_mode(self, *modes: str) -> ZooKeeperServer | None:
        for server in self.servers:
            if self.place.run(server.mode) in modes:
                return server
        return None
