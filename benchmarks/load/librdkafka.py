"""librdkafka's producer with no Python per message: what confluent-kafka adds to each is half of a generator's time.

The library is the one that confluent-kafka has loaded. Names and layouts are those of its public header, rdkafka.h.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka  # noqa: F401  loads the library
from benchmarks.load.job import LoadFailed

_PRODUCER = 0
ANY_PARTITION = -1
_COPY = 2
_QUEUE_FULL = -184
_ERROR_BYTES = 512


class _Message(ctypes.Structure):
    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


def _load() -> ctypes.CDLL:
    maps = Path("/proc/self/maps").read_text().splitlines()
    library = ctypes.CDLL(next(line.split()[-1] for line in maps if "librdkafka" in line))
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    for name, result, arguments in (
        ("conf_new", pointer, ()),
        ("conf_set", number, (pointer, text, text, text, size)),
        ("new", pointer, (number, pointer, text, size)),
        ("destroy", None, (pointer,)),
        ("topic_new", pointer, (pointer, text, pointer)),
        ("topic_destroy", None, (pointer,)),
        ("metadata", number, (pointer, number, pointer, pointer, number)),
        ("metadata_destroy", None, (pointer,)),
        ("produce", number, (pointer, ctypes.c_int32, number, text, size, pointer, size, pointer)),
        ("produce_batch", number, (pointer, ctypes.c_int32, number, pointer, number)),
        ("last_error", number, ()),
        ("err2str", text, (number,)),
        ("poll", number, (pointer, number)),
        ("outq_len", number, (pointer,)),
        ("flush", number, (pointer, number)),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_LIBRARY = _load()


class Batch:
    """Equal messages, which librdkafka reads where they are."""

    def __init__(self, value: bytes, count: int) -> None:
        self._value = ctypes.create_string_buffer(value, len(value))
        template = bytes(_Message(payload=ctypes.addressof(self._value), length=len(value)))
        self.count = count
        self.messages = (_Message * count).from_buffer_copy(template * count)


class RawProducer:
    """A producer for one topic. Settings not named are librdkafka's defaults."""

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        reason = ctypes.create_string_buffer(_ERROR_BYTES)
        settled = _LIBRARY.rd_kafka_conf_new()
        for name, value in settings.items():
            words = str(value).lower() if isinstance(value, bool) else str(value)
            if _LIBRARY.rd_kafka_conf_set(settled, name.encode(), words.encode(), reason, _ERROR_BYTES):
                raise LoadFailed(reason.value.decode())
        self._handle = _LIBRARY.rd_kafka_new(_PRODUCER, settled, reason, _ERROR_BYTES)
        if not self._handle:
            raise LoadFailed(reason.value.decode())
        self._topic = _LIBRARY.rd_kafka_topic_new(self._handle, topic.encode(), None)
        self._unanswered: set[Batch] = set()
        weakref.finalize(self, _end, self._handle, self._topic)

    def await_metadata(self, timeout_s: float) -> None:
        found = ctypes.c_void_p()
        _check(_LIBRARY.rd_kafka_metadata(self._handle, 0, self._topic, ctypes.byref(found), _ms(timeout_s)))
        _LIBRARY.rd_kafka_metadata_destroy(found)

    def produce(self, value: bytes) -> bool:
        """Copies the message, and says whether there was room for it."""
        arguments = (ANY_PARTITION, _COPY, value, len(value), None, 0, None)
        if _LIBRARY.rd_kafka_produce(self._topic, *arguments) == 0:
            return True
        error = _LIBRARY.rd_kafka_last_error()
        if error != _QUEUE_FULL:
            _check(error)
        return False

    def produce_batch(self, batch: Batch, count: int, partition: int) -> int:
        """For how many of the first `count` there was room. They stay where they are until all has been answered."""
        self._unanswered.add(batch)
        queued: int = _LIBRARY.rd_kafka_produce_batch(self._topic, partition, 0, batch.messages, count)
        return queued

    def poll(self, timeout_s: float) -> None:
        _LIBRARY.rd_kafka_poll(self._handle, _ms(timeout_s))

    def flush(self, timeout_s: float) -> int:
        """How many are left without an answer."""
        _LIBRARY.rd_kafka_flush(self._handle, _ms(timeout_s))
        left: int = _LIBRARY.rd_kafka_outq_len(self._handle)
        if not left:
            self._unanswered.clear()
        return left


def _end(handle: int, topic: int) -> None:
    _LIBRARY.rd_kafka_topic_destroy(topic)
    _LIBRARY.rd_kafka_destroy(handle)


def _check(error: int) -> None:
    if error:
        raise LoadFailed(_LIBRARY.rd_kafka_err2str(error).decode())


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
