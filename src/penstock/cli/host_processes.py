"""What each of several broker processes of one host is given: the same settings, but for who and where it is."""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.cli.broker_processes import BrokerProcess
from penstock.config.address import Address
from penstock.config.settings import Settings
from penstock.errors import PenstockError, Problem

_HIGHEST_PORT = 65535
# What a data directory of one process has; see coordination/data_directory.py.
_OWN_FILES = ("directory-id", "cluster-id", "topics")


def host_processes(
    settings: Settings, count: int, flags: Mapping[str, str], config: str | None, parent: int
) -> list[BrokerProcess]:
    """Process i has the id, the ports and, below the data directory, the name + i. `flags` are the host's own.

    Raises PenstockError INVALID_CONFIG for what cannot be had with several processes.
    """
    network, node = settings.network, settings.node
    if settings.coordination.coordination.is_embedded:
        raise _refusal(
            f"{count} processes are {count} brokers of a cluster, which needs ZooKeeper: set coordination to "
            "zookeeper://HOST:PORT/CHROOT, or leave --processes out"
        )
    for name, address in (("listen", network.listen), ("http", network.http)):
        if not address.port or address.port + count - 1 > _HIGHEST_PORT:
            raise _refusal(f"{name}={address}: process i takes this port + i, so give one with {count - 1} behind it")
    if any(os.path.exists(os.path.join(node.data_dir, name)) for name in _OWN_FILES):
        raise _refusal(
            f"{node.data_dir} has the data of a single process; several keep theirs in {node.data_dir}/0 and so on: "
            "give another directory, or leave --processes out"
        )
    processes = []
    for number in range(count):
        http = _shifted(network.http, number)
        own = {
            "node.id": str(node.node_id + number),
            "listen": str(_shifted(network.listen, number)),
            "http": str(http),
            "data.dir": os.path.join(node.data_dir, str(number)),
        }
        if network.advertised_listener.host:
            own["advertised.listener"] = str(_shifted(network.advertised_listener, number))
        arguments = [] if config is None else ["--config", config]
        arguments += [part for name, text in {**flags, **own}.items() for part in ("--set", f"{name}={text}")]
        processes.append(BrokerProcess(f"broker {own['node.id']}", [*arguments, "--parent", str(parent)], http))
    return processes


def _shifted(address: Address, number: int) -> Address:
    return Address(address.host, address.port + number)


def _refusal(text: str) -> PenstockError:
    return PenstockError(Problem.INVALID_CONFIG, text)
