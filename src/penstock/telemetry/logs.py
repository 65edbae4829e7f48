"""Structured logs on stderr: one line per event, with its fields.

    logger.warning("connection.closed", extra={"peer": host, "why": why})

The message is the event's name; `extra` holds its fields. `why` and `do` are the words for the operator.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

# What every record has anyway; all else came with `extra`.
_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# A value of this alphabet needs no quotes to be read back.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-+[]@%")


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES}


class TextFormat(logging.Formatter):
    """For people: time, level, event, then key=value; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_timestamp(record)} {record.levelname.lower():7} {_one_line(record.getMessage())}"
        line = " ".join([head, *(f"{name}={_quoted(value)}" for name, value in fields_of(record).items())])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormat(logging.Formatter):
    """For machines: one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, Any] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **fields_of(record),
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


class _Adding(logging.Filter):
    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields

    def filter(self, record: logging.LogRecord) -> bool:
        vars(record).update(self._fields)
        return True


def configure_logging(
    log_format: str, level: str, stream: TextIO | None = None, fields: Mapping[str, Any] | None = None
) -> None:
    """Send every log line of this process to `stream` (stderr), with `fields` in each. Replaces an earlier call."""
    handler = logging.StreamHandler(stream or sys.stderr)
    if fields:
        handler.addFilter(_Adding(fields))
    handler.setFormatter(JsonFormat() if log_format == "json" else TextFormat())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _timestamp(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"


def _quoted(value: object) -> str:
    text = json.dumps(value, default=str) if isinstance(value, Mapping | list | tuple) else str(value)
    return text if text and _PLAIN.issuperset(text) else json.dumps(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
