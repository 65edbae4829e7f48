"""An operator reads in the log why a client was turned away."""

from __future__ import annotations

import re
import struct

import pytest
from tests.bad_input import requests
from tests.bad_input.broker import Broker
from tests.bad_input.raw import header_bytes, packed
from tests.bad_input.test_framing import CLIENT_HELLO, HTTP_GET
from tests.interop.waiting import eventually

METADATA, HEARTBEAT = 3, 12


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


# What is sent, and what must be in one line with the address of the one who sent it.
REASONS = {
    "TLS": (CLIENT_HELLO, "TLS.*PLAINTEXT"),
    "HTTP": (HTTP_GET, "HTTP.*--http"),
    "a negative length": (struct.pack(">i", -1), "-1"),
    "2 GB": (struct.pack(">i", 2**31 - 1), "2147483647"),
    "an unknown API": (framed(header_bytes(999, 0, 1, flexible=False)), "999"),
    "a count beyond the bytes left": (
        framed(header_bytes(METADATA, 9, 1, flexible=True) + bytes.fromhex("ffffffff0f")),
        r"MetadataRequest\.topics.*4294967294",
    ),
    "null where none is allowed": (
        framed(header_bytes(HEARTBEAT, 0, 1, flexible=False) + struct.pack(">hih", -1, 0, 1) + b"m"),
        r"HeartbeatRequest\.group_id",
    ),
    "an end that comes too early": (framed(packed(requests.metadata("topic"), 1)[:-3]), "MetadataRequest"),
}


@pytest.mark.parametrize(("sent", "reason"), REASONS.values(), ids=REASONS)
def test_the_log_says_why(broker: Broker, sent: bytes, reason: str) -> None:
    with broker.connect() as connection:
        connection.send_bytes(sent)
        connection.wait_until_closed()
    # Held back when the same was said a moment ago, so the whole log is looked at.
    eventually(lambda: re.search(f"127.0.0.1.*{reason}", broker.log_text()) is not None, f"{reason} in the log", 5)
