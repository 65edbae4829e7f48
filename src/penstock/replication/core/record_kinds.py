"""The records of a machine as bytes.

A record is a key and a value: compaction keeps the newest value per key, and a record whose value is None (a
tombstone) ends its key. On disk a key is one byte for the kind and a msgpack array of the key fields; a value is one
byte for the version and a msgpack array. Fields may be appended to a value with a default and keep its version: older
readers skip them. Any other change of a value takes a new version, any other change of a key a new kind.

The field order of a record class is its key's, with `value` last.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from penstock.errors import PenstockError, Problem

Record = TypeVar("Record")

_ENCODER = msgspec.msgpack.Encoder()


class RecordKind:
    """How one class of records becomes bytes."""

    def __init__(self, number: int, record_type: Any, key_type: Any, value_type: Any, version: int = 1) -> None:
        self.number = number
        self.record_type = record_type
        self.version = version
        self.prefix = bytes([number])
        self.value_prefix = bytes([version])
        self.key_decoder = msgspec.msgpack.Decoder(key_type)
        self.value_decoder = msgspec.msgpack.Decoder(value_type)


class RecordKinds(Generic[Record]):
    """All kinds of one internal topic: a codec for the runner of its machines."""

    def __init__(self, topic: str, *kinds: RecordKind) -> None:
        self._topic = topic
        self._by_number = {kind.number: kind for kind in kinds}
        self._by_type = {kind.record_type: kind for kind in kinds}

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value of a record; the value of a tombstone is None."""
        kind = self._by_type[type(record)]
        *key, value = msgspec.structs.astuple(cast(msgspec.Struct, record))
        key_bytes = kind.prefix + _ENCODER.encode(key)
        if value is None:
            return key_bytes, None
        return key_bytes, kind.value_prefix + _ENCODER.encode(value)

    def decode(self, key: bytes, value: bytes | None) -> Record:
        """The record of these bytes. What a newer Penstock wrote is refused, never skipped: skipping it would serve

        an older state as if it were the newest.
        """
        if not key or value == b"":
            raise PenstockError(Problem.CORRUPT_RECORDS, f"a record of {self._topic} has an empty key or value")
        kind = self._by_number.get(key[0])
        if kind is None:
            raise self._too_new(f"record kind {key[0]}")
        try:
            key_fields = kind.key_decoder.decode(key[1:])
            decoded = None
            if value is not None:
                if value[0] != kind.version:
                    raise self._too_new(f"version {value[0]} of record kind {kind.number}")
                decoded = kind.value_decoder.decode(value[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PenstockError(
                Problem.CORRUPT_RECORDS, f"a record of {self._topic} cannot be read: {error}"
            ) from error
        return cast(Record, kind.record_type(*key_fields, decoded))

    def _too_new(self, what: str) -> PenstockError:
        return PenstockError(
            Problem.UNSUPPORTED_VERSION,
            f"{self._topic} holds {what}, which a newer Penstock wrote and this one cannot read: upgrade this node",
        )
