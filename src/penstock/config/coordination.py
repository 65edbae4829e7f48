"""Where metadata is kept, and how a node reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from penstock.config.address import Address
from penstock.config.setting import Scope, Section, section, setting

_SCHEME = "zookeeper://"
_ZOOKEEPER_PORT = 2181
# Counted in what one change of the store may take (coordination/interface.py).
_MAX_CHROOT_BYTES = 128


@dataclass(frozen=True, slots=True)
class CoordinationTarget:
    """`embedded`, or ZooKeeper's servers and the node below which this cluster lives ("" or "/path")."""

    servers: tuple[Address, ...] = ()
    chroot: str = ""

    wanted: ClassVar[str] = "embedded, or zookeeper://HOST:PORT,HOST:PORT/CHROOT (port 2181 and chroot can be left out)"

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError if it is none."""
        if text == "embedded":
            return cls()
        if not text.startswith(_SCHEME):
            raise ValueError(text)
        names, slash, path = text.removeprefix(_SCHEME).partition("/")
        return cls(tuple(_server(name) for name in names.split(",")), _chroot(path) if slash and path else "")

    @property
    def is_embedded(self) -> bool:
        return not self.servers

    def __str__(self) -> str:
        return "embedded" if self.is_embedded else _SCHEME + ",".join(map(str, self.servers)) + self.chroot


def _server(text: str) -> Address:
    host, colon, port = text.strip().rpartition(":")
    without_port = not colon or port.endswith("]")
    address = Address.parse(f"{text.strip()}:{_ZOOKEEPER_PORT}" if without_port else f"{host}:{port}")
    if not address.port or any(letter.isspace() or letter in "@?#" for letter in address.host):
        raise ValueError(text)
    return address


def _chroot(path: str) -> str:
    names = path.removesuffix("/").split("/")
    # A comma or a colon: more servers behind the chroot.
    plain = path.isascii() and path.isprintable() and not any(letter in " ,:?#@" for letter in path)
    if not plain or len(path) > _MAX_CHROOT_BYTES or any(name in ("", ".", "..", "zookeeper") for name in names):
        raise ValueError(path)
    return "/" + "/".join(names)


@dataclass(frozen=True, slots=True)
class Credentials:
    """USER:PASSWORD or nothing. Shown without the password wherever settings are shown."""

    text: str = ""

    wanted: ClassVar[str] = "USER:PASSWORD, or nothing"
    is_secret: ClassVar[bool] = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError if it is neither."""
        user, colon, password = text.partition(":")
        if text and not (user and colon and password):
            raise ValueError(text)
        return cls(text)

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return self.text.partition(":")[0] + ":[hidden]" if self.text else ""

    def __repr__(self) -> str:
        return f"Credentials({str(self)!r})"


@section(scope=Scope.NODE)
class CoordinationSettings(Section):
    coordination: CoordinationTarget = setting(
        CoordinationTarget(),
        name="coordination",
        doc="Where topics, brokers and leadership are recorded: `embedded` for a node of its own, "
        "`zookeeper://host:port,host:port/chroot` for a cluster.",
    )
    session_timeout_ms: int = setting(
        6_000,
        name="zookeeper.session.timeout.ms",
        at_least=500,
        at_most=600_000,
        doc="How long ZooKeeper waits for a silent broker before the cluster goes on without it. ZooKeeper itself "
        "allows 2 to 20 of its tickTime.",
    )
    connection_timeout_ms: int = setting(
        10_000,
        name="zookeeper.connection.timeout.ms",
        at_least=100,
        at_most=600_000,
        doc="How long a start waits for ZooKeeper before it gives up.",
    )
    zookeeper_auth: Credentials = setting(
        Credentials(),
        name="zookeeper.auth",
        doc="User and password for ZooKeeper's digest authentication. Give it in the file or the environment, not as "
        "a flag that others can see.",
    )
    zookeeper_set_acl: bool = setting(
        False,
        name="zookeeper.set.acl",
        doc="Let nobody but those with the same authentication (digest or TLS certificate) touch the nodes that this "
        "broker creates. Give all brokers the same one.",
    )
    zookeeper_tls: bool = setting(
        False,
        name="zookeeper.tls.enable",
        doc="Reach ZooKeeper over TLS, at its secureClientPort.",
    )
    zookeeper_tls_ca: str = setting(
        "",
        name="zookeeper.tls.ca",
        doc="PEM file with the authorities that may sign ZooKeeper's certificate; without one the system's.",
    )
    zookeeper_tls_cert: str = setting(
        "",
        name="zookeeper.tls.cert",
        doc="PEM file with the certificate by which ZooKeeper knows this broker.",
    )
    zookeeper_tls_key: str = setting(
        "",
        name="zookeeper.tls.key",
        doc="PEM file with the key of zookeeper.tls.cert.",
    )
    zookeeper_tls_verify_hostname: bool = setting(
        True,
        name="zookeeper.tls.verify.hostname",
        doc="Whether ZooKeeper's certificate must name the host that was dialled.",
    )
