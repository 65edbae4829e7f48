"""The ways to make oneself known to ZooKeeper: certificates and passwords."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop
from tests.coordination.certificates import Authority, Certificate
from tests.coordination.stores import refused_start, with_zookeeper

from penstock.config.address import Address
from penstock.config.coordination import CoordinationSettings, CoordinationTarget, Credentials
from penstock.coordination.interface import Create
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.coordination.zookeeper_server import free_ports
from penstock.errors import PenstockError, Problem
from penstock.testing.zookeeper import zookeeper


class Secured(NamedTuple):
    # With everything that it takes.
    settings: CoordinationSettings
    authority: Authority
    stranger: Certificate


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("certificates")
    authority, other = Authority(directory, "authority"), Authority(directory, "other")
    server, broker = authority.issue("server", "127.0.0.1"), authority.issue("broker")
    (port,) = free_ports(1)
    server_settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": str(server.both),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(authority.path),
        "ssl.trustStore.type": "PEM",
        # A certificate that names a broker, not a host.
        "ssl.clientHostnameVerification": "false",
    }
    settings = CoordinationSettings(
        CoordinationTarget((Address("127.0.0.1", port),), "/secured"),
        connection_timeout_ms=5_000,
        zookeeper_tls=True,
        zookeeper_tls_ca=str(authority.path),
        zookeeper_tls_cert=str(broker.certificate),
        zookeeper_tls_key=str(broker.key),
    )
    with zookeeper(settings=server_settings):
        yield Secured(settings, authority, other.issue("stranger"))


def refusal(settings: CoordinationSettings) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        uvloop.run(ZooKeeperStore.open(settings))
    return caught.value


def test_everything_works_over_tls(secured: Secured) -> None:
    async def use(store: ZooKeeperStore) -> None:
        paths = [f"/{number}" for number in range(1_000)]
        seen: list[str] = []
        store.watch("/", seen.append)
        await store.commit([Create(path, bytes(500)) for path in paths])
        assert len(set(seen) - {"/"}) == 1_000
        # Many replies in one TLS record: none may wait for the next record to come.
        for node in await store.read_many(paths):
            assert node is not None and node.data == bytes(500)

    with_zookeeper(secured.settings, use)


def test_who_cannot_be_trusted_is_refused(secured: Secured) -> None:
    stranger = {"zookeeper_tls_cert": str(secured.stranger.certificate), "zookeeper_tls_key": str(secured.stranger.key)}
    nobody = {"zookeeper_tls_cert": "", "zookeeper_tls_key": ""}
    for changes in (stranger, nobody):
        refused_start(replace(secured.settings, **changes), "certificate")  # type: ignore[arg-type]
    # The server's authority is not one of the system's.
    refused_start(replace(secured.settings, zookeeper_tls_ca=""), "certificate verify failed")


def test_nodes_with_an_acl_are_for_those_who_know_the_password(chroot_settings: CoordinationSettings) -> None:
    # Not in the chroot that is the parent of other tests'.
    target = replace(chroot_settings.coordination, chroot="/owned")
    mine = replace(
        chroot_settings, coordination=target, zookeeper_auth=Credentials("me:secret"), zookeeper_set_acl=True
    )
    nobody = replace(mine, zookeeper_auth=Credentials())

    async def try_to_create(store: ZooKeeperStore) -> str:
        with pytest.raises(PenstockError) as caught:
            await store.commit([Create("/a", b"1")])
        return str(caught.value)

    assert "zookeeper.set.acl needs" in with_zookeeper(nobody, try_to_create)
    with_zookeeper(mine, lambda store: store.commit([Create("/a", b"1")]))
    node = with_zookeeper(mine, lambda store: store.read("/a"))
    assert node is not None and node.data == b"1"
    for other in (nobody, replace(mine, zookeeper_auth=Credentials("me:wrong"))):
        error = refusal(other)
        assert error.problem is Problem.STORAGE_FAILED
        assert "check zookeeper.auth" in str(error)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"zookeeper_tls": False}, "zookeeper.tls.enable"),
        ({"zookeeper_tls_key": ""}, "go together"),
        ({"zookeeper_tls_ca": "/no/such/file"}, "/no/such/file"),
        ({"zookeeper_tls_cert": "/etc/hostname"}, "/etc/hostname"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_once(tmp_path: Path, changes: dict[str, str | bool], word: str) -> None:
    authority = Authority(tmp_path, "authority")
    broker = authority.issue("broker")
    settings = CoordinationSettings(
        CoordinationTarget((Address("127.0.0.1", 1),)),
        zookeeper_tls=True,
        zookeeper_tls_ca=str(authority.path),
        zookeeper_tls_cert=str(broker.certificate),
        zookeeper_tls_key=str(broker.key),
    )
    error = refusal(replace(settings, **changes))  # type: ignore[arg-type]
    assert error.problem is Problem.INVALID_CONFIG
    assert word in str(error)
