"""What `penstock cluster` asks of the controller, through any broker: JSON in a request of Penstock's own."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.cli.connection import connected_first, fail_unreachable
from penstock.cli.failure import fail, say
from penstock.cli.raw_request import ask_raw

_API_KEY = 30_001
# Length, API key, version, correlation id, client id (null).
_HEAD = struct.Struct(">ihhih")
_HEAD_BYTES = _HEAD.size - 4
_ID_BYTES = 4
# The controller plans for seconds, waits for brokers that do not answer, and may be replaced meanwhile.
_TIMEOUT_S = 60.0
# Moves in one request: a broker takes requests of a few megabytes, and should not be busy with one for long.
_CHUNK = 500
_NAMED = 20


class Operator:
    def __init__(self, bootstrap: str) -> None:
        """Fails the command at once if nobody listens there."""
        self._bootstrap = bootstrap
        self._node = connected_first(bootstrap)

    def ask(self, what: str, **fields: Any) -> dict[str, Any]:
        """Fails the command if it is refused, with every reason."""
        try:
            reply = self.ask_once(what, **fields)
        except OSError as error:
            fail_unreachable(self._bootstrap, str(error))
        if reply.get("problem"):
            fail_refused(reply)
        return reply

    def ask_once(self, what: str, **fields: Any) -> dict[str, Any]:
        """OSError if there is no answer."""
        body = json.dumps({"ask": what, **fields}).encode()
        answer = ask_raw(self._node, _HEAD.pack(_HEAD_BYTES + len(body), _API_KEY, 0, 1, -1) + body, _TIMEOUT_S)
        try:
            reply: dict[str, Any] = json.loads(answer[_ID_BYTES:])
        except ValueError:
            raise ConnectionError("what answers there is not a Penstock node of this release") from None
        return reply

    def reach_another(self) -> None:
        """The node that was asked may be gone for good."""
        self._node = connected_first(self._bootstrap)


def in_chunks(moves: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    for start in range(0, len(moves), _CHUNK):
        yield moves[start : start + _CHUNK]


def fail_refused(reply: dict[str, Any]) -> None:
    refused = reply.get("refused", [])
    text = reply["text"].partition(": ")[0] if refused else reply["text"]
    tell_refused(refused)
    fail(f"{text} ({reply['problem']})", do="nothing was changed; the reasons are above" if refused else "")


def tell_refused(refused: Sequence[dict[str, Any]]) -> None:
    for each in refused[:_NAMED]:
        say(f"{each['topic']}-{each['partition']}: {each['reason']}")
    if len(refused) > _NAMED:
        say(f"and {len(refused) - _NAMED} more")
