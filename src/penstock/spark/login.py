"""SASL on a connection that has just been made: PLAIN and SCRAM."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.scram import MECHANISMS, Scram
from penstock.spark.core.security import Sasl

if TYPE_CHECKING:
    from penstock.spark.connection import Connection

_PLAIN = "PLAIN"
_NONCE_BYTES = 24


def log_in(connection: Connection, sasl: Sasl) -> None:
    """Raises ClientFailure, also when the broker does not know the mechanism."""
    if sasl.mechanism != _PLAIN and sasl.mechanism not in MECHANISMS:
        raise ClientFailure(f"SASL mechanism {sasl.mechanism} is not spoken: {', '.join((_PLAIN, *MECHANISMS))} are")
    answer = connection.ask(SaslHandshakeRequest(mechanism=sasl.mechanism), SaslHandshakeResponse)
    if answer.error_code is not ErrorCode.none:
        text = f"{connection.address} does not take {sasl.mechanism}, but {', '.join(answer.mechanisms) or 'none'}"
        raise ClientFailure(text)
    if sasl.mechanism == _PLAIN:
        _say(connection, b"\0".join((b"", sasl.username.encode(), sasl.password.encode())))
        return
    scram = Scram(sasl.mechanism, sasl.username, sasl.password, secrets.token_urlsafe(_NONCE_BYTES))
    server_first = _say(connection, scram.first())
    scram.verify(_say(connection, scram.final(server_first)))


def _say(connection: Connection, words: bytes) -> bytes:
    answer = connection.ask(SaslAuthenticateRequest(auth_bytes=words), SaslAuthenticateResponse)
    if answer.error_code is not ErrorCode.none:
        why = answer.error_message or answer.error_code.name
        raise ClientFailure(f"{connection.address} refuses the login: {why}")
    return bytes(answer.auth_bytes)
