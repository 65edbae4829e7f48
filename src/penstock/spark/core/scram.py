"""SCRAM (RFC 5802, 7677) as a client says it: neither side shows the password, and the server proves that it knows it.

As Kafka does it: no channel binding, no authorisation id, names and passwords in UTF-8 as they are.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from penstock.spark.core.failures import ClientFailure

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = tuple(_HASHES)
# The least that Kafka's clients accept; and so many that a server which means harm cannot keep us busy for long.
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4096, 1_000_000
_NO_BINDING = b"n,,"


class Scram:
    """For one login: `first` → the server's answer → `final` → the server's answer → `verify`."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        """`nonce` must be random, and used once."""
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}".encode()
        self._server_signature = b""

    def first(self) -> bytes:
        return _NO_BINDING + self._first_bare

    def final(self, server_first: bytes) -> bytes:
        fields = _fields(server_first)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ClientFailure("the broker's answer to the login is not for this one: its nonce is another")
        try:
            salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError):
            raise ClientFailure("the broker's answer to the login has no salt or no number of iterations") from None
        if not _LEAST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            text = f"the broker asks for {iterations} iterations, {_LEAST_ITERATIONS} to {_MOST_ITERATIONS} are allowed"
            raise ClientFailure(text)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        without_proof = b"c=" + base64.b64encode(_NO_BINDING) + b",r=" + nonce.encode()
        message = b",".join((self._first_bare, server_first, without_proof))
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), message)
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), message)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        return without_proof + b",p=" + base64.b64encode(proof)

    def verify(self, server_final: bytes) -> None:
        """ClientFailure unless the server knows the password too."""
        fields = _fields(server_final)
        if "e" in fields:
            raise ClientFailure(f"the broker refuses the login: {fields['e']}")
        if not hmac.compare_digest(fields.get("v", "").encode(), base64.b64encode(self._server_signature)):
            raise ClientFailure("the broker does not know the password: it is not the one that it seems to be")

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    text = message.decode("utf-8", "replace")
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
