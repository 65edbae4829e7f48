"""What /proc says about a process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from benchmarks.usage import ProcessStat, parse_busy_ticks, parse_status_bytes

from benchmarks import usage

_STAT = "4711 (a (strange) name) S 42 4711 4711 0 -1 4194560 900 0 0 0 250 50 7 3 20 0 1 0 100 1000 10"


def test_a_command_name_with_spaces_and_parentheses_does_not_shift_the_fields() -> None:
    assert ProcessStat.parse(_STAT) == ProcessStat(parent_pid=42, cpu_ticks=250 + 50 + 7 + 3)


def test_sizes_in_a_status_are_bytes_and_a_missing_one_is_none_used() -> None:
    assert parse_status_bytes("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t1 kB\n", "VmHWM") == 2048 * 1024
    assert parse_status_bytes("Name:\tx\n", "VmHWM") == 0


def test_idle_and_waiting_ticks_are_not_busy_and_stolen_ones_are() -> None:
    assert parse_busy_ticks("cpu  1 2 4 1000 1000 8 16 32 0 0\ncpu0 9 9 9 9 9 9 9 9 0 0\n") == 63


def test_a_child_belongs_to_the_family() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= usage.family(os.getpid()).keys()
        assert usage.peak_rss_bytes(os.getpid()) > usage.peak_rss_bytes(child.pid) > 0
        # Whoever is named and belongs to another's family counts once.
        assert usage.family(os.getpid(), child.pid).keys() == usage.family(os.getpid()).keys()
        child.communicate(b"\n")


def test_a_process_that_is_gone_is_said() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(ProcessLookupError, match=str(child.pid)):
        usage.cpu_s(child.pid)
