"""Logins and certificates: what a broker with either wants, and what goes wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.primitive import i64Timedelta
from tests.coordination.certificates import Authority
from tests.spark.fake_broker import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE, FakeBroker, metadata
from tests.spark.written import settings_for

from penstock.config.address import Address
from penstock.spark.cluster import Cluster
from penstock.spark.core.failures import ClientFailure, NoAnswer
from penstock.spark.core.security import Sasl, Security, Tls
from penstock.testing import TestNode

SALT, ITERATIONS = b"salt", 4096


def said(words: bytes, error: ErrorCode = ErrorCode.none, why: str | None = None) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=error, error_message=why, auth_bytes=words, session_lifetime=i64Timedelta.parse(timedelta(0))
    )


class Server:
    """Knows the password `pencil`, by SCRAM; what PLAIN says it compares."""

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism
        self._first: list[bytes] = []

    def handshake(self, request: Any) -> SaslHandshakeResponse:
        known = request.mechanism == self._mechanism
        error = ErrorCode.none if known else ErrorCode.unsupported_sasl_mechanism
        return SaslHandshakeResponse(error_code=error, mechanisms=(self._mechanism,))

    def authenticate(self, request: Any) -> SaslAuthenticateResponse:
        words = bytes(request.auth_bytes)
        if self._mechanism == "PLAIN":
            good = words == b"\0user\0pencil"
            error = ErrorCode.none if good else ErrorCode.sasl_authentication_failed
            return said(b"", error, None if good else "Authentication failed: Invalid username or password")
        return self._proven(words) if self._first else self._challenge(words)

    def _challenge(self, words: bytes) -> SaslAuthenticateResponse:
        bare = words.removeprefix(b"n,,")
        nonce = bare.partition(b",r=")[2]
        answer = b"r=%sserver,s=%s,i=%d" % (nonce, base64.b64encode(SALT), ITERATIONS)
        self._first = [bare, answer]
        return said(answer)

    def _proven(self, words: bytes) -> SaslAuthenticateResponse:
        without_proof, _, proof = words.rpartition(b",p=")
        message = b",".join([*self._first, without_proof])
        self._first = []
        salted = hashlib.pbkdf2_hmac("sha512", b"pencil", SALT, ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", "sha512")
        signature = hmac.digest(hashlib.sha512(client_key).digest(), message, "sha512")
        expected = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        if base64.b64decode(proof) != expected:
            return said(b"", ErrorCode.sasl_authentication_failed, "Authentication failed during authentication")
        return said(
            b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), message, "sha512"))
        )


@contextmanager
def wanting_login(mechanism: str) -> Iterator[FakeBroker]:
    server = Server(mechanism)
    answers = {SASL_HANDSHAKE: server.handshake, SASL_AUTHENTICATE: server.authenticate}
    with FakeBroker({METADATA: lambda _: metadata([broker.port], 0), **answers}) as broker:
        yield broker


def topics_with(bootstrap: str, security: Security) -> list[str]:
    with Cluster(settings_for(bootstrap, security=security, patience_ms=300)) as cluster:
        return [topic.name for topic in cluster.topics(["orders"])]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_password_opens(mechanism: str) -> None:
    with wanting_login(mechanism) as broker:
        assert topics_with(broker.bootstrap, Security(sasl=Sasl(mechanism, "user", "pencil"))) == ["orders"]
        with pytest.raises(ClientFailure, match="refuses the login: Authentication failed"):
            topics_with(broker.bootstrap, Security(sasl=Sasl(mechanism, "user", "other")))


def test_a_mechanism_that_only_one_of_both_knows() -> None:
    with wanting_login("PLAIN") as broker:
        with pytest.raises(ClientFailure, match="does not take SCRAM-SHA-256, but PLAIN"):
            topics_with(broker.bootstrap, Security(sasl=Sasl("SCRAM-SHA-256", "user", "pencil")))
        with pytest.raises(ClientFailure, match="GSSAPI is not spoken"):
            topics_with(broker.bootstrap, Security(sasl=Sasl("GSSAPI", "user", "pencil")))


@contextmanager
def tls_in_front_of(bootstrap: str, certificate: Path, clients: Path | None = None) -> Iterator[str]:
    """A port that speaks TLS, and passes on to one that does not. With `clients`: only those that it has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    target = Address.parse(bootstrap)

    def pipe(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        sink.close()

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                peer = context.wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                continue
            node = socket.create_connection((target.host, target.port))
            threading.Thread(target=pipe, args=(peer, node), daemon=True).start()
            threading.Thread(target=pipe, args=(node, peer), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def hello(bootstrap: str, tls: Tls) -> None:
    """The first question: metadata would lead to the plain port."""
    with Cluster(settings_for(bootstrap, security=Security(tls=tls), patience_ms=300)) as cluster:
        cluster.topics(["orders"])


def test_a_certificate_that_is_trusted_and_one_that_is_not(spark_node: TestNode, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    good, elsewhere = authority.issue("good", "127.0.0.1"), authority.issue("elsewhere", "127.0.0.2")
    with tls_in_front_of(spark_node.bootstrap, good.both) as bootstrap:
        hello(bootstrap, Tls(trusted_file=str(authority.path)))
        hello(bootstrap, Tls(trusted_certificates=authority.path.read_text()))
        for wrong in (Tls(trusted_file=str(stranger.path)), Tls()):
            with pytest.raises(ClientFailure, match="is not to be trusted"):
                hello(bootstrap, wrong)
        with pytest.raises(ClientFailure, match="certificates cannot be used"):
            hello(bootstrap, Tls(trusted_certificates="no certificate"))
    with tls_in_front_of(spark_node.bootstrap, elsewhere.both) as bootstrap:
        with pytest.raises(ClientFailure, match="is not to be trusted"):
            hello(bootstrap, Tls(trusted_file=str(authority.path)))
        hello(bootstrap, Tls(trusted_file=str(authority.path), check_hostname=False))


def test_a_certificate_of_ones_own(spark_node: TestNode, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server, own = authority.issue("server", "127.0.0.1"), authority.issue("own")
    trusted = str(authority.path)
    with tls_in_front_of(spark_node.bootstrap, server.both, authority.path) as bootstrap:
        hello(bootstrap, Tls(trusted_file=trusted, own_file=str(own.both)))
        key, certificate = own.key.read_text(), own.certificate.read_text()
        hello(bootstrap, Tls(trusted_file=trusted, own_key=key, own_certificates=certificate))
        with pytest.raises(ClientFailure):
            hello(bootstrap, Tls(trusted_file=trusted))


def test_tls_where_there_is_none(spark_node: TestNode) -> None:
    with pytest.raises((NoAnswer, ClientFailure), match="does not agree on TLS"):
        hello(spark_node.bootstrap, Tls())
