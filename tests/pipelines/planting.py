"""What a disk or a bug may do to the files of a log."""

from __future__ import annotations

from pathlib import Path

from penstock.storage.core.aborted import pack_rows, unpack_rows
from penstock.storage.core.index_entries import OFFSETS, pack_entries, unpack_entries
from penstock.wire.batch import crc_of, read_header

_CRC_AT = 17


def flipped(path: Path, position: int | None = None, bit: int = 2) -> None:
    with path.open("r+b") as file:
        at = path.stat().st_size // 2 if position is None else position
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def rewritten(path: Path, place: int) -> tuple[int, int]:
    """One byte of that batch is another one, and its CRC fits: as if a leader had written something else there. Its

    offsets.
    """
    data = bytearray(path.read_bytes())
    at = 0
    for _ in range(place):
        at += read_header(data, at).size
    header = read_header(data, at)
    data[at + header.size - 5] ^= 1
    crc = crc_of(memoryview(data)[at : at + header.size])
    data[at + _CRC_AT : at + _CRC_AT + 4] = crc.to_bytes(4, "big")
    path.write_bytes(data)
    return header.base_offset, header.next_offset


def lying(index: Path) -> None:
    """An offset index that is whole, and names a place where no batch begins."""
    entries = unpack_entries(index.read_bytes(), OFFSETS)
    entries.positions[1] += 1
    index.write_bytes(pack_entries(entries.keys, entries.positions, entries.covers))


def forgetful(index: Path) -> None:
    """An index of aborted transactions that is whole, and has the end of one where it is not."""
    stored = unpack_rows(index.read_bytes())
    assert stored is not None
    last = stored.rows[-1]
    rows = [*stored.rows[:-1], last._replace(last_offset=last.last_offset - 1)]
    index.write_bytes(pack_rows(rows, stored.covers))
