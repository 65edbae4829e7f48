"""What a process and its descendants have used, read from /proc, so that both brokers are measured alike."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@dataclass(frozen=True)
class ProcessStat:
    """The fields of /proc/PID/stat that we use. CPU covers children that were waited for."""

    parent_pid: int
    cpu_ticks: int

    @classmethod
    def parse(cls, text: str) -> ProcessStat:
        # The command name stands in parentheses and may hold spaces and parentheses itself.
        fields = text[text.rindex(")") + 2 :].split()
        return cls(parent_pid=int(fields[1]), cpu_ticks=sum(int(field) for field in fields[11:15]))

    @property
    def cpu_s(self) -> float:
        return self.cpu_ticks / _TICKS_PER_S


def parse_status_bytes(text: str, field: str) -> int:
    """A kB field of /proc/PID/status in bytes; a process that is ending has none and counts as 0."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * _KIB
    return 0


def family(*pids: int) -> dict[int, ProcessStat]:
    """The processes and their living descendants, each once."""
    stats = _all_stats()
    for pid in pids:
        if pid not in stats:
            raise ProcessLookupError(f"process {pid} is gone")
    members = set(pids)
    grown = True
    while grown:
        children = {child for child, stat in stats.items() if stat.parent_pid in members} - members
        members |= children
        grown = bool(children)
    return {member: stats[member] for member in members}


def cpu_s(*pids: int) -> float:
    return sum(stat.cpu_ticks for stat in family(*pids).values()) / _TICKS_PER_S


def peak_rss_bytes(*pids: int) -> int:
    """The sum of each process's own peak: an upper bound when there are several, exact when there is one."""
    return sum(_status_bytes(member, "VmHWM") for member in family(*pids))


def parse_busy_ticks(text: str) -> int:
    """From /proc/stat: the ticks all processors did something, including what the host took for other guests."""
    user, nice, system, _idle, _wait, interrupt, soft_interrupt, stolen = (
        int(field) for field in text.splitlines()[0].split()[1:9]
    )
    return user + nice + system + interrupt + soft_interrupt + stolen


def machine_cpu_s() -> float:
    return parse_busy_ticks(Path("/proc/stat").read_text()) / _TICKS_PER_S


def _status_bytes(pid: int, field: str) -> int:
    try:
        return parse_status_bytes(Path(f"/proc/{pid}/status").read_text(), field)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _all_stats() -> dict[int, ProcessStat]:
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stats[int(entry)] = ProcessStat.parse(Path(f"/proc/{entry}/stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return stats
