"""What a batch from a producer must be before it may enter a log. Only the header is read: contents stay opaque."""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError, Problem
from penstock.wire.batch import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL, BatchHeader, crc_of, read_header

_MAGIC_AT: Final = 16
_NEWEST_COMPRESSION: Final = 4
# Compression, and that it belongs to a transaction.
_DEFINED: Final = 0x07 | TRANSACTIONAL
# Length, attributes, the two deltas, no key, no value, no headers: a byte each.
_SMALLEST_RECORD_BYTES: Final = 7


def check_produced(records: memoryview, max_bytes: int, in_transaction: bool = False) -> BatchHeader:
    """The header of the one batch in `records`, or a PenstockError. `in_transaction`: the request names one."""
    size = len(records)
    if size < HEADER_BYTES:
        _check_short(records)
    header = read_header(records)
    _, length, _, magic, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, count = header
    if magic != MAGIC or length + LENGTH_OVERHEAD != size:
        _check_shape(header, size)
    if size > max_bytes:
        raise PenstockError(
            Problem.RECORDS_TOO_LARGE, f"the batch has {size} bytes, max.message.bytes of the topic is {max_bytes}"
        )
    if crc_of(records) != crc:
        raise PenstockError(Problem.CORRUPT_RECORDS, "the batch does not match its CRC: it changed on its way here")
    if attributes > _NEWEST_COMPRESSION or attributes < 0:
        _check_attributes(header, in_transaction)
        attributes = header.compression
    if count <= 0 or last_delta != count - 1:
        raise _invalid(f"{count} records with a last offset delta of {last_delta}")
    # The count takes up offsets, so a few bytes must not claim a billion. What compressed bytes hold is not known here.
    if not attributes and count > (size - HEADER_BYTES) // _SMALLEST_RECORD_BYTES:
        raise _invalid(f"{size - HEADER_BYTES} bytes cannot hold {count} records")
    if producer_id >= 0 and (epoch < 0 or sequence < 0):
        raise _invalid("a batch with a producer id needs a producer epoch and a sequence")
    return header


def check_timestamp(header: BatchHeader, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """CreateTime only; -1 means that the producer gave none."""
    newest = header.max_timestamp
    if newest < 0 and newest != -1:
        raise PenstockError(Problem.INVALID_TIMESTAMP, f"timestamp {newest:d} is negative")
    if newest - now_ms > after_max_ms or (newest >= 0 and now_ms - newest > before_max_ms):
        raise PenstockError(
            Problem.INVALID_TIMESTAMP,
            # `:d`, because mypyc forgets to free the number else if it is larger than 2**62.
            f"timestamp {newest:d} is too far from the broker's {now_ms}: see message.timestamp.before.max.ms "
            "and message.timestamp.after.max.ms of the topic",
        )


def _check_short(records: memoryview) -> None:
    if len(records) == 0:
        raise _invalid("there is no record batch in the request")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != MAGIC:
        raise _invalid(f"record format {records[_MAGIC_AT]} is too old: use a client that writes format 2")
    raise PenstockError(Problem.CORRUPT_RECORDS, f"{len(records)} bytes are too few for a record batch")


def _check_shape(header: BatchHeader, size: int) -> None:
    if header.magic != MAGIC:
        raise _invalid(f"record format {header.magic} is not 2: use a client that writes format 2")
    if header.length < HEADER_BYTES - LENGTH_OVERHEAD or header.size > size:
        raise PenstockError(
            Problem.CORRUPT_RECORDS, f"the batch says that it has {header.size} bytes, {size} were sent"
        )
    raise _invalid("a produce request may hold one batch per partition, this one holds more")


def _check_attributes(header: BatchHeader, in_transaction: bool) -> None:
    if header.is_control:
        raise _invalid("clients may not write control batches")
    if header.is_log_append_time:
        raise PenstockError(Problem.INVALID_TIMESTAMP, "producers may not set the LogAppendTime flag")
    if header.compression > _NEWEST_COMPRESSION:
        raise PenstockError(Problem.UNSUPPORTED_COMPRESSION, f"compression {header.compression} is unknown")
    if header.attributes & ~_DEFINED:
        raise _invalid(f"attributes {header.attributes:#x} have bits that are not defined")
    if header.is_transactional and not in_transaction:
        # No marker would ever end its transaction, and readers of committed records would wait for one.
        raise _invalid("a batch in a transaction needs the transactional id in its request")
    if header.is_transactional and not header.has_producer:
        raise _invalid("a batch in a transaction needs a producer id")


def _invalid(text: str) -> PenstockError:
    return PenstockError(Problem.INVALID_RECORD, text)
