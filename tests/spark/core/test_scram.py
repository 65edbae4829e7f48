"""The examples of the standards, and a server that does not know the password."""

from __future__ import annotations

import pytest

from penstock.spark.core.failures import ClientFailure
from penstock.spark.core.scram import Scram

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_7677() -> None:
    scram = Scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert scram.first() == b"n,,n=user,r=" + NONCE.encode()
    assert scram.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.verify(SERVER_FINAL)
    with pytest.raises(ClientFailure, match="does not know the password"):
        scram.verify(b"v=AAAA")
    with pytest.raises(ClientFailure, match="invalid-proof"):
        scram.verify(b"e=invalid-proof")


def test_names_are_escaped() -> None:
    assert Scram("SCRAM-SHA-512", "a=b,c", "", "N").first() == b"n,,n=a=3Db=2Cc,r=N"


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (SERVER_FIRST.replace(b"rOpr", b"xxxx"), "nonce"),
        (b"r=" + NONCE.encode() + b",s=AA==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"4096", b"1"), "1 iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999"), "999999999 iterations"),
        (SERVER_FIRST.replace(b",i=", b",x="), "no number of iterations"),
        (b"\xff", "nonce"),
    ],
)
def test_a_server_that_means_harm_is_refused(said: bytes, match: str) -> None:
    with pytest.raises(ClientFailure, match=match):
        Scram("SCRAM-SHA-256", "user", "pencil", NONCE).final(said)
