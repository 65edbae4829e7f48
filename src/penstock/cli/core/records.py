"""Records as lines of text: what `produce` reads and `consume` writes.

Lines: the value, or key and value with a separator between them. JSON: one object per line,
    {"key": "k", "value": "v", "headers": [["name", "value"]], "partition": 0, "timestamp": 1700000000000}
and, from consume, topic and offset too; produce reads those and ignores them, so that one can feed the other.
Bytes that are not UTF-8 are {"base64": "..."}; null is null.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Protocol

Headers = tuple[tuple[str, bytes | None], ...]


class BadLine(ValueError):
    """The text says what is wrong with the line."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to send, or one that was read; the last two are known of the latter only."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None
    offset: int | None = None


class RecordFormat(Protocol):
    def read(self, line: bytes) -> Record:
        """`line` is without its end. BadLine if it is none."""

    def write(self, record: Record) -> bytes:
        """Without a line's end."""


class Lines:
    """Headers, timestamps and nulls are lost, and a value with a newline in it becomes two: use JSON for those."""

    def __init__(self, key_separator: str | None = None) -> None:
        self._separator = None if key_separator is None else key_separator.encode()

    def read(self, line: bytes) -> Record:
        if self._separator is None:
            return Record(value=line)
        key, found, value = line.partition(self._separator)
        if not found:
            raise BadLine(f"there is no key separator {self._separator.decode()!r} in it")
        return Record(key=key, value=value)

    def write(self, record: Record) -> bytes:
        value = record.value or b""
        return value if self._separator is None else (record.key or b"") + self._separator + value


class JsonLines:
    _READ = frozenset({"key", "value", "headers", "partition", "timestamp", "topic", "offset"})

    def read(self, line: bytes) -> Record:
        try:
            content = json.loads(line)
        except ValueError as error:
            raise BadLine(f"it is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise BadLine('it is not an object like {"value": "text"}')
        if unknown := sorted(content.keys() - self._READ):
            raise BadLine(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(self._READ))}")
        if "value" not in content:
            raise BadLine('it has no "value"; write "value": null for a deletion marker')
        return Record(
            value=_to_bytes(content["value"]),
            key=_to_bytes(content.get("key")),
            headers=_to_headers(content.get("headers")),
            partition=_to_number(content, "partition"),
            timestamp_ms=_to_number(content, "timestamp"),
        )

    def write(self, record: Record) -> bytes:
        content = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": _from_bytes(record.key),
            "value": _from_bytes(record.value),
            "headers": [[name, _from_bytes(value)] for name, value in record.headers],
        }
        return json.dumps(content, ensure_ascii=False).encode()


def _to_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BadLine(f"{value['base64']!r} is not base64") from None
    return json.dumps(value, ensure_ascii=False).encode()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadLine("a lone surrogate is not text; use base64 for bytes") from None


def _from_bytes(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _to_headers(headers: Any) -> Headers:
    if headers is None:
        return ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    try:
        # Twice the same name is fine, as in Kafka; that is why a list is the form that is written.
        return tuple((str(name), _to_bytes(value)) for name, value in pairs)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadLine):
            raise
        raise BadLine('headers must be {"name": "value"} or [["name", "value"]]') from None


def _to_number(content: dict[str, Any], field: str) -> int | None:
    value = content.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadLine(f"{field} must be a whole number, not {json.dumps(value)}")
    return value
