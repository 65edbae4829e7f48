"""How to reach a listener that wants TLS or a login. Plain and picklable: tasks need it too."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates are PEM: a file that every host has, or the text itself; None means the system's trusted ones."""

    trusted_file: str | None = None
    trusted_certificates: str | None = None
    own_file: str | None = None
    own_key: str | None = field(default=None, repr=False)
    own_certificates: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Sasl:
    """`mechanism` is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """At least one of both; a listener that wants neither has no `Security` at all."""

    tls: Tls | None = None
    sasl: Sasl | None = None
