"""The fuzzer itself: a million inputs as torture, and that it notices harm."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import scale
from tools.fuzz import limit_memory, watched

from penstock.units import MIB

ROOT = Path(__file__).resolve().parent.parent.parent


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.torture("fuzz")
def test_a_million_inputs_do_no_harm(record_property: Callable[[str, object], None]) -> None:
    done = fuzz("--inputs", "1000000", "--seed", str(scale.seed()))
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"(\d+) inputs, ([\d,]+)/s, peak memory (\d+) MiB", done.stdout)
    assert said is not None
    record_property("inputs", int(said[1]))
    record_property("inputs_per_s", int(said[2].replace(",", "")))
    record_property("peak_memory_mib", int(said[3]))


def test_the_fuzzer_runs_and_names_its_seed() -> None:
    done = fuzz("--inputs", "300", "--seed", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 5: 300 inputs" in done.stdout


def test_a_child_that_dies_is_noticed() -> None:
    place = mmap.mmap(-1, 8)
    child = multiprocessing.get_context("fork").Process(target=die)
    child.start()
    assert watched(child, place, first=0, inputs=1) == "ended by signal 9"


def test_a_child_that_takes_too_much_memory_is_noticed() -> None:
    place = mmap.mmap(-1, 8)
    child = multiprocessing.get_context("fork").Process(target=take_memory)
    child.start()
    assert watched(child, place, first=0, inputs=1) == "an error, see above"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def take_memory() -> None:
    limit_memory()
    bytearray(1024 * MIB)
