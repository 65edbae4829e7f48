"""The four compressions of record batches, within a limit that holds while decompressing.

The output buffer is the limit: the decompressor writes into one that has at most so many bytes and stops when it is
full, so a bomb costs the limit and nothing more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam

from penstock.errors import PenstockError, Problem
from penstock.units import KIB

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

# Most batches fit the first buffer; each further one costs another run, so the steps are large.
_FIRST_BUFFER_BYTES = 16 * KIB
_FIRST_BUFFER_RATIO = 4
_GROWTH = 4
# What Rust's writers say when the buffer they write to is full.
_BUFFER_FULL = "failed to write whole buffer"

# The Java client wraps Snappy in the framing of the xerial library: magic, two versions, then blocks with their length.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_BLOCK_LENGTH = struct.Struct(">i")

_Decompress = Callable[[memoryview, bytearray], int]


def compression_name(compression: int) -> str:
    return _NAMES.get(compression, f"unknown ({compression})")


def decompress(compression: int, data: memoryview, *, limit_bytes: int, expected_bytes: int = 0) -> bytearray | bytes:
    """Raises PenstockError: RECORDS_TOO_LARGE, CORRUPT_RECORDS, UNSUPPORTED_COMPRESSION.

    If it is no more than `expected_bytes`, one run is enough.
    """
    match compression:
        case 0:
            if len(data) > limit_bytes:
                raise _too_large(compression, limit_bytes)
            return bytes(data)
        case 1:
            return _grow(cramjam.gzip.decompress_into, compression, data, limit_bytes, expected_bytes)
        case 2:
            return _decompress_snappy(data, limit_bytes)
        case 3:
            return _grow(cramjam.lz4.decompress_into, compression, data, limit_bytes, expected_bytes)
        case 4:
            return _grow(cramjam.zstd.decompress_into, compression, data, limit_bytes, expected_bytes)
        case _:
            raise _unsupported(compression)


def compress(compression: int, data: bytes | bytearray) -> bytes:
    match compression:
        case 0:
            return bytes(data)
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            return bytes(cramjam.snappy.compress_raw(data))
        case 3:
            # The Java client reads frames of independent blocks only.
            compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data))
        case _:
            raise _unsupported(compression)


def _grow(
    decompress_into: _Decompress, compression: int, data: memoryview, limit_bytes: int, expected_bytes: int
) -> bytearray:
    capacity = min(limit_bytes, max(_FIRST_BUFFER_BYTES, expected_bytes or _FIRST_BUFFER_RATIO * len(data)))
    while True:
        output = bytearray(capacity)
        try:
            del output[decompress_into(data, output) :]
            return output
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise _corrupt(compression, str(error)) from None
        if capacity >= limit_bytes:
            raise _too_large(compression, limit_bytes)
        # Two buffers at once would be more than the limit.
        del output
        capacity = min(limit_bytes, _GROWTH * capacity)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytearray:
    output = bytearray()
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        _append_snappy_block(output, data, limit_bytes)
        return output
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        start = position + _BLOCK_LENGTH.size
        length = _BLOCK_LENGTH.unpack_from(data, position)[0] if start <= len(data) else -1
        if not 0 <= length <= len(data) - start:
            raise _corrupt(SNAPPY, f"the block at byte {position} does not fit")
        position = start + length
        _append_snappy_block(output, data[start:position], limit_bytes)
    return output


def _append_snappy_block(output: bytearray, block: memoryview, limit_bytes: int) -> None:
    """The block says how long it will be, and the decompressor holds it to that."""
    start = len(output)
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > limit_bytes - start:
            raise _too_large(SNAPPY, limit_bytes)
        output.extend(bytes(length))
        written = cramjam.snappy.decompress_raw_into(block, memoryview(output)[start:]) if length else 0
    except cramjam.DecompressionError as error:
        raise _corrupt(SNAPPY, str(error)) from None
    if written != length:
        raise _corrupt(SNAPPY, f"a block holds {written} bytes instead of {length}")


def _too_large(compression: int, limit_bytes: int) -> PenstockError:
    text = f"the records take more than {limit_bytes} bytes without their {compression_name(compression)} compression"
    return PenstockError(Problem.RECORDS_TOO_LARGE, text)


def _corrupt(compression: int, reason: str) -> PenstockError:
    return PenstockError(Problem.CORRUPT_RECORDS, f"the {compression_name(compression)} data is damaged: {reason}")


def _unsupported(compression: int) -> PenstockError:
    return PenstockError(Problem.UNSUPPORTED_COMPRESSION, f"there is no compression with number {compression}")
