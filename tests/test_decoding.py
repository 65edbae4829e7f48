"""Values of untrusted bytes."""

from __future__ import annotations

import msgspec
import pytest

from penstock.decoding import decoded


class Part(msgspec.Struct):
    number: int


JSON = msgspec.json.Decoder(Part)
MSGPACK = msgspec.msgpack.Decoder(Part)


def test_what_is_right_is_decoded() -> None:
    assert decoded(JSON, b'{"number": 3}') == decoded(MSGPACK, msgspec.msgpack.encode({"number": 3})) == Part(3)


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"number": "x"}', b'{"number": 3, "more": ' + b"[" * 100_000])
def test_wrong_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decoded(JSON, data)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\xa6number\xa1x", b"\x81\xa4more" + b"\x91" * 100_000])
def test_wrong_messagepack_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decoded(MSGPACK, data)
