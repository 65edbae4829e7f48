"""A broker that throws away what it gets and answers at once: what a producer of librdkafka's can send at best.

One partition of one topic, the versions it picks itself, requests one by one: enough for one `Produce` job.
"""

from __future__ import annotations

import multiprocessing
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TOPIC = "sink"

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _API_VERSIONS = 0, 1, 2, 3, 18
# Fetch is never answered: librdkafka writes the current format of batches only to brokers that know it.
_SPOKEN = ((_PRODUCE, 7, 7), (_FETCH, 4, 4), (_LIST_OFFSETS, 1, 1), (_METADATA, 4, 4), (_API_VERSIONS, 0, 3))
_HEADER = struct.Struct(">ihhi")
# The lengths of client id and transactional id come before what has one length: acks to the size of the records.
_BEFORE_RECORDS = struct.Struct(f">hi ih{len(TOPIC)}s iii")
_COUNT_IN_BATCH = struct.Struct(">57xi")
_DISCARDED_AT_ONCE = 1 << 20
_LATEST = -1


@contextmanager
def running() -> Iterator[str]:
    """Its address, while it runs in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=_accept, args=(listener,), daemon=True)
        process.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            process.join()


def _accept(listener: socket.socket) -> None:
    sink = _Sink(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=sink.serve, args=(connection,), daemon=True).start()


class _Sink:
    def __init__(self, port: int) -> None:
        self._port = port
        self._end = 0

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while len(header := _exactly(connection, _HEADER.size)) == _HEADER.size:
                size, key, version, correlation = _HEADER.unpack(header)
                left = size + 4 - _HEADER.size
                if key == _PRODUCE:
                    answer = self._produced(connection, left)
                else:
                    answer = self._answer(key, version, _exactly(connection, left))
                connection.sendall(struct.pack(">ii", 4 + len(answer), correlation) + answer)

    def _produced(self, connection: socket.socket, left: int) -> bytes:
        """Counts the records, and has the kernel drop them."""
        seen = b""
        for _ in ("client id", "transactional id"):
            length = _exactly(connection, 2)
            seen += length + _exactly(connection, max(0, *struct.unpack(">h", length)))
        seen += _exactly(connection, _BEFORE_RECORDS.size + _COUNT_IN_BATCH.size)
        (count,) = _COUNT_IN_BATCH.unpack(seen[-_COUNT_IN_BATCH.size :])
        left -= len(seen)
        unused = bytearray(_DISCARDED_AT_ONCE)
        while left:
            gone = connection.recv_into(unused, min(left, len(unused)), socket.MSG_TRUNC)
            if not gone:
                raise EOFError("the producer left in the middle of a request")
            left -= gone
        base, self._end = self._end, self._end + count
        return _one(_text(TOPIC) + _one(struct.pack(">ihqqq", 0, 0, base, -1, 0))) + struct.pack(">i", 0)

    def _answer(self, key: int, version: int, body: bytes) -> bytes:
        if key == _API_VERSIONS:
            return _versions(version)
        if key == _METADATA:
            broker = struct.pack(">i", 1) + _text("127.0.0.1") + struct.pack(">ih", self._port, -1)
            partition = struct.pack(">hii", 0, 0, 1) + 2 * _one(struct.pack(">i", 1))
            topic = struct.pack(">h", 0) + _text(TOPIC) + b"\0" + _one(partition)
            return struct.pack(">i", 0) + _one(broker) + _text("sink") + struct.pack(">i", 1) + _one(topic)
        if key == _LIST_OFFSETS:
            (wanted,) = struct.unpack(">q", body[-8:])
            offset = self._end if wanted == _LATEST else 0
            return _one(_text(TOPIC) + _one(struct.pack(">ihqq", 0, 0, -1, offset)))
        raise ValueError(f"a sink has no API {key}")


def _versions(version: int) -> bytes:
    if version == 0:
        return struct.pack(">hi", 0, len(_SPOKEN)) + b"".join(struct.pack(">hhh", *row) for row in _SPOKEN)
    rows = b"".join(struct.pack(">hhhx", *row) for row in _SPOKEN)
    return struct.pack(">hB", 0, len(_SPOKEN) + 1) + rows + struct.pack(">ix", 0)


def _exactly(connection: socket.socket, size: int) -> bytes:
    return connection.recv(size, socket.MSG_WAITALL) if size else b""


def _text(words: str) -> bytes:
    return struct.pack(">h", len(words)) + words.encode()


def _one(row: bytes) -> bytes:
    return struct.pack(">i", 1) + row
