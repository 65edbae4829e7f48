"""The machine under the numbers: what it is, and how it is made ready for a fair run."""

from __future__ import annotations

import mmap
import os
import platform
import threading
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


def settle(wanted_bytes: int = 0) -> None:
    """No measurement pays for dirty pages that the one before it left, nor for memory that the host has taken back, nor

    for room in memory for `wanted_bytes` that it is about to write: older pages make it now.
    """
    os.sync()
    _touch_free_memory(wanted_bytes)


def _touch_free_memory(wanted_bytes: int) -> None:
    """What the last measurement gave back, and what the kernel keeps free, is the host's again after two seconds."""
    size_bytes = min(_meminfo_bytes("MemFree") - _UNTOUCHED_BYTES, _TOUCHED_BYTES)
    if wanted_bytes:
        size_bytes = max(size_bytes, min(wanted_bytes + _WORKING_BYTES, _meminfo_bytes("MemAvailable") // 2))
    if size_bytes > 0:
        with mmap.mmap(-1, size_bytes) as memory:
            for position in range(0, size_bytes, mmap.PAGESIZE):
                memory[position] = 1


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
