"""All tests, in two processes beside each other: those that compute, and those that start brokers and wait for them.

The second kind stays in one process, one test after the other: two clusters at once on two cores make each other late.
Spark's start one broker each at most, and come last among those that compute, which takes both about as long. With
arguments it is pytest, and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "-p", "tools.areas"]
# A directory that is not named here is taken for one that starts brokers.
COMPUTING = [
    *("bad_input", "broker", "config", "durability", "fuzz", "groups", "pipelines", "replication", "rpc"),
    *("simulation", "storage", "transactions", "wire", "spark"),
]


def computing() -> list[str]:
    # A cache of its own: the last failures of one must not be written over those of the other.
    return [*PYTEST, "-o", "cache_dir=.pytest_cache/computing", *(f"tests/{name}" for name in COMPUTING)]


def waiting() -> list[str]:
    return [*PYTEST, *(f"--ignore=tests/{name}" for name in COMPUTING)]


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.run([*PYTEST, *arguments], cwd=ROOT, check=False).returncode
    with tempfile.TemporaryFile() as output:
        beside = subprocess.Popen(computing(), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            code = subprocess.run(waiting(), cwd=ROOT, check=False).returncode
            print("== those that compute, which ran beside them", flush=True)
            code = beside.wait() or code
        finally:
            beside.kill()
            beside.wait()
        output.seek(0)
        sys.stdout.buffer.write(output.read())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
