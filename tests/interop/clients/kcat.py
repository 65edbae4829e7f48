"""kcat: the command line tool that people reach for first. It is an older librdkafka (2.0)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from itertools import groupby

from tests.interop.client import Refusal
from tests.interop.record import Record

_TIMEOUT_S = 20.0
# kcat prints the broker's error as text only; these are the texts that scenarios ask for.
_CODES = {"Message size too large": 10}


class KcatClient:
    name = "kcat"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        """kcat has one set of headers and one partition per call, so runs of equal ones share a call."""
        settings = ["-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "message.max.bytes=10000000"]
        for (headers, partition), group in groupby(records, key=lambda record: (record.headers, record.partition)):
            run = list(group)
            arguments = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", f"acks={acks}", "-Z", "-K", "\t"]
            if codec != "none":
                # A record that travels alone, because the machine is slow, is sent uncompressed if that is shorter. So
                # all wait for the last one, which makes the batch full.
                arguments += ["-X", "linger.ms=10000", "-X", f"batch.num.messages={len(run)}"]
            for name, value in headers:
                arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
            lines = b"".join((record.key or b"") + b"\t" + (record.value or b"") + b"\n" for record in run)
            self._run([*arguments, *settings], lines)

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
        out = self._run(["-C", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count), "-J"])
        return _records(out, count)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        return self._query(topic, partition, -2), self._query(topic, partition, -1)

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        found = self._query(topic, partition, timestamp_ms)
        return found if found >= 0 else None

    def read_in_group(self, group: str, topic: str, count: int) -> list[Record]:
        settings = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000"]
        out = self._run(["-G", group, "-c", str(count), "-J", *settings, topic])
        return _records(out, count)

    def _query(self, topic: str, partition: int, timestamp_ms: int) -> int:
        out = self._run(["-Q", "-t", f"{topic}:{partition}:{timestamp_ms}"])
        found = re.search(rb"offset (-?\d+)", out)
        assert found, out
        return int(found.group(1))

    def _run(self, arguments: list[str], given: bytes = b"") -> bytes:
        command = ["kcat", "-b", self._bootstrap, "-X", "fetch.wait.max.ms=100", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, timeout=_TIMEOUT_S)
        said = done.stderr.decode()
        for text, code in _CODES.items():
            if text in said:
                raise Refusal(code, said)
        assert done.returncode == 0, said
        return done.stdout


def _records(out: bytes, count: int) -> list[Record]:
    rows = [json.loads(line) for line in out.splitlines() if line]
    assert len(rows) == count, f"{len(rows)} of {count} records arrived"
    return [
        Record(
            value=_bytes(row["payload"]),
            key=_bytes(row["key"]),
            headers=_headers(row.get("headers", [])),
            timestamp_ms=row["ts"],
            partition=row["partition"],
            offset=row["offset"],
        )
        for row in rows
    ]


def _headers(flat: list[str | None]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((str(name), _bytes(value)) for name, value in zip(flat[::2], flat[1::2], strict=True))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
