"""Feeds wrong bytes to everything that reads a client's: frames, every request, Produce, Fetch, record batches.

    python tools/fuzz.py --inputs 1000000 --seed 1
    python tools/fuzz.py --seed 1 --first 4711 --inputs 1      the very input that failed

The feeding runs in a child process with limited memory, so that an abort, a hang or an allocation without bound is
seen too. Exits with 1 and the bytes of the first input that did any harm.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import random
import resource
import struct
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fuzz.targets import NAMES, feed, one_input

from penstock.units import MIB

# Beyond what the readers, compiled for every version, take already. One request may take 64 MiB.
MEMORY_BYTES = 256 * MIB
# The slowest input takes milliseconds; this is for one that never ends.
HANG_S = 30.0

_NUMBER = struct.Struct("=q")


def fed(place: mmap.mmap, seed: int, first: int, inputs: int) -> None:
    """The child's work. Before each input its number goes to memory that the parent still has when we are gone."""
    limit_memory()
    chance = random.Random()
    for number in range(first, first + inputs):
        _NUMBER.pack_into(place, 0, number)
        name, raw, must_accept = one_input(seed, number, chance)
        feed(name, raw, must_accept)
    _NUMBER.pack_into(place, 0, first + inputs)


def limit_memory() -> None:
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_BYTES, taken + MEMORY_BYTES))


def watched(child: BaseProcess, place: mmap.mmap, first: int, inputs: int) -> str:
    """Waits for the child and shows how far it is; says what went wrong, or nothing."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:,.0f}/s"), TimeRemainingColumn())
    started = moved = time.monotonic()
    last = first
    with Progress(*columns) as progress:
        bar = progress.add_task("fuzz", total=inputs, rate=0.0)
        while child.is_alive():
            child.join(0.2)
            (number,) = _NUMBER.unpack_from(place, 0)
            now = time.monotonic()
            if number != last:
                last, moved = number, now
            elif now - moved > HANG_S:
                child.kill()
                child.join()
                return f"no end after {HANG_S:.0f} s"
            progress.update(bar, completed=number - first, rate=(number - first) / (now - started))
    exit_code = child.exitcode or 0
    if exit_code == 0:
        return ""
    return f"ended by signal {-exit_code}" if exit_code < 0 else "an error, see above"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Wrong bytes for everything that reads a client's.")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many (default: a million)")
    parser.add_argument("--seed", type=int, help="of an earlier run; drawn if left out")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    chosen = parser.parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}: {chosen.inputs} inputs for {len(NAMES)} targets", flush=True)
    place = mmap.mmap(-1, _NUMBER.size)
    _NUMBER.pack_into(place, 0, chosen.first)
    started = time.monotonic()
    # Forked, so that the readers compiled here are there already.
    child = multiprocessing.get_context("fork").Process(target=fed, args=(place, seed, chosen.first, chosen.inputs))
    child.start()
    trouble = watched(child, place, chosen.first, chosen.inputs)
    (number,) = _NUMBER.unpack_from(place, 0)
    if trouble:
        name, raw, _ = one_input(seed, number, random.Random())
        print(f"input {number} for {name}: {trouble}\n{raw.hex()}")
        print(f"again with: python tools/fuzz.py --seed {seed} --first {number} --inputs 1")
        return 1
    rate = chosen.inputs / (time.monotonic() - started)
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"seed {seed}: {chosen.inputs} inputs, {rate:,.0f}/s, peak memory {peak_mib:.0f} MiB, no harm done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
