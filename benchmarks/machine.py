"""The machine under the numbers: what it is, and how it is made ready for a fair run."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import threading
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import confluent_kafka

_MIB = 1024 * 1024
# Hardly any: what is free is not backed, and the first to write would pay for it. Programs recycle pages, too.
_SPARE_BYTES = 128 * _MIB
_LANES = 2
# Left alone, so that nothing else has to make room; and more than there is where memory was filled.
_UNTOUCHED_BYTES = 32 * _MIB
_TOUCHED_BYTES = 512 * _MIB
# What producers and brokers keep in memory of what they write.
_WORKING_BYTES = 256 * _MIB
# Linux tells a host of free blocks of 2 MiB.
_PAGES_TOLD_OF = 512
# Which Python does not name.
_MADV_COLD = 20
# Of an entry of /proc/PID/pagemap.
_FRAME_BITS = (1 << 55) - 1


def describe() -> dict[str, str]:
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{_meminfo_bytes('MemTotal') / 1e9:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "librdkafka": confluent_kafka.libversion()[0],
    }


def fill_memory(ballast: Path) -> int:
    """Fill free memory with page cache that nobody needs, so that a broker's writes only ever recycle pages.

    On a virtual machine a page that the host has not backed yet costs up to ten times as much to fill, and guests hand
    free pages back to the host within seconds, so memory touched and freed is untouched again. Pages of a file that was
    read once are the first to be recycled and never went back. The file is sparse: it takes no disk, and it has to
    stay until the measurements are over. Returns its size.
    """
    size_bytes = max(0, _meminfo_bytes("MemFree") - _SPARE_BYTES) // _MIB * _MIB
    with ballast.open("wb+") as file:
        file.truncate(size_bytes)
        lanes = [threading.Thread(target=_read_lane, args=(file.fileno(), lane, size_bytes)) for lane in range(_LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    return size_bytes


def _read_lane(descriptor: int, lane: int, size_bytes: int) -> None:
    buffer = bytearray(_MIB)
    for position in range(lane * _MIB, size_bytes, _LANES * _MIB):
        os.preadv(descriptor, [buffer], position)


@contextmanager
def settled(wanted_bytes: int = 0) -> Iterator[None]:
    """For one measurement: it pays for no dirty pages that the one before it left, for no memory that the host has

    taken back, nor for room in memory for `wanted_bytes` that it is about to write. Older pages make it now.
    """
    os.sync()
    size_bytes = min(_meminfo_bytes("MemFree") - _UNTOUCHED_BYTES, _TOUCHED_BYTES)
    if wanted_bytes:
        size_bytes = max(size_bytes, min(wanted_bytes + _WORKING_BYTES, _meminfo_bytes("MemAvailable") // 2))
    with ExitStack() as stack:
        if size_bytes > 0:
            _free_for_us(stack.enter_context(mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))
        yield


def _free_for_us(memory: mmap.mmap) -> None:
    """The kernel has it, and the host does not hear of it: it is told of large blocks that are free as a whole, within

    two seconds, and of each of them a page stays in use. Where nobody may know which block a page is of, one page does.
    """
    # In whole blocks as far as there are any, which the kernel makes by moving others' pages: now, not when it is asked
    # for large pieces for what is written.
    _advise(memory, mmap.MADV_HUGEPAGE, 0, len(memory))
    for position in range(0, len(memory), mmap.PAGESIZE):
        memory[position] = 1
    pages = len(memory) // mmap.PAGESIZE
    seen: set[int] = set()
    start = 0
    for page, frame in enumerate(_frames(memory, pages)):
        if (block := frame // _PAGES_TOLD_OF) not in seen:
            seen.add(block)
            # What is kept stays a page: as a part of a block that is one it would keep all of it.
            _advise(memory, _MADV_COLD, page * mmap.PAGESIZE, mmap.PAGESIZE)
            _give_back(memory, start, page)
            start = page + 1
    _give_back(memory, start, pages)


def _advise(memory: mmap.mmap, advice: int, start: int, length: int) -> None:
    # A kernel without it has nothing to be told.
    with suppress(OSError):
        memory.madvise(advice, start, length)


def _frames(memory: mmap.mmap, pages: int) -> array[int]:
    """Where in the machine's memory each page is; zeros for who may not know."""
    anchor = ctypes.c_char.from_buffer(memory)
    first = ctypes.addressof(anchor) // mmap.PAGESIZE
    del anchor
    entries = array("Q")
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        entries.frombytes(os.pread(pagemap.fileno(), pages * entries.itemsize, first * entries.itemsize))
    return array("Q", [entry & _FRAME_BITS for entry in entries])


def _give_back(memory: mmap.mmap, start: int, end: int) -> None:
    if start < end:
        memory.madvise(mmap.MADV_DONTNEED, start * mmap.PAGESIZE, (end - start) * mmap.PAGESIZE)


def _meminfo_bytes(field: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise LookupError(f"/proc/meminfo has no {field}")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
