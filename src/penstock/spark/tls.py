"""TLS around a socket. Certificates are PEM, as files or as text."""

from __future__ import annotations

import socket
import ssl
import tempfile
from pathlib import Path

from penstock.config.address import Address
from penstock.spark.core.failures import ClientFailure, NoAnswer
from penstock.spark.core.security import Tls


def secured(plain: socket.socket, tls: Tls, address: Address) -> ssl.SSLSocket:
    """Takes the socket over. ClientFailure if the certificates cannot be used or the broker's is not to be trusted."""
    try:
        return _context(tls).wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise ClientFailure(f"the certificate of {address} is not to be trusted: {error.verify_message}") from error
    except OSError as error:
        plain.close()
        raise NoAnswer(f"{address} does not agree on TLS: {error}") from error


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    try:
        if tls.trusted_file is None and tls.trusted_certificates is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(tls.trusted_file, cadata=tls.trusted_certificates)
        if tls.own_file is not None:
            context.load_cert_chain(tls.own_file, password=tls.key_password)
        elif tls.own_key is not None and tls.own_certificates is not None:
            _load_own(context, tls.own_key + "\n" + tls.own_certificates, tls.key_password)
    except (OSError, ValueError) as error:
        raise ClientFailure(f"the certificates cannot be used: {error}") from error
    return context


def _load_own(context: ssl.SSLContext, text: str, password: str | None) -> None:
    """The ssl module reads keys from files only; this one is for us alone, and gone at once."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        path = Path(directory, "own.pem")
        path.touch(mode=0o600)
        path.write_text(text)
        context.load_cert_chain(path, password=password)
