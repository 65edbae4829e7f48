"""Certificates for the way to ZooKeeper."""

from __future__ import annotations

import ssl

from penstock.config.coordination import CoordinationSettings
from penstock.errors import PenstockError, Problem


def check_tls(settings: CoordinationSettings) -> None:
    """Raises PenstockError(INVALID_CONFIG) for files that kazoo could not use, and would try again and again."""
    given = (settings.zookeeper_tls_ca, settings.zookeeper_tls_cert, settings.zookeeper_tls_key)
    if not settings.zookeeper_tls:
        if any(given):
            text = "zookeeper.tls.ca, .cert and .key need zookeeper.tls.enable=true"
            raise PenstockError(Problem.INVALID_CONFIG, text)
        return
    ca, certificate, key = given
    if bool(certificate) != bool(key):
        raise PenstockError(Problem.INVALID_CONFIG, "zookeeper.tls.cert and zookeeper.tls.key go together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca:
            context.load_verify_locations(ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        text = f"zookeeper.tls: {', '.join(filter(None, given))}: {error}"
        raise PenstockError(Problem.INVALID_CONFIG, text) from error
