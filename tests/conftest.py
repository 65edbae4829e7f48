"""For all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from penstock.node.build import source_of

# How long an example takes says something about the machine, and speed is measured elsewhere.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

_SOURCES = Path(__file__).parents[1] / "src"


def pytest_sessionstart() -> None:
    """What is compiled is run instead of its source: tests of a source that was changed since would say nothing."""
    for built in _SOURCES.rglob("*.so"):
        source = source_of(built)
        if source.exists() and source.stat().st_mtime > built.stat().st_mtime:
            pytest.exit(f"{source} was changed after it had been compiled: run `make setup`", returncode=4)


@pytest.fixture(autouse=True, scope="module")
def no_client_is_left() -> Iterator[None]:
    """A client in a cycle lives until the collector comes, which a node makes rare, and dials its broker every second.

    The port may be another's by then, such as Spark's, which takes what it hears for a worker of its own.
    """
    yield
    if "rdk:main" in _threads():
        gc.collect()


def _threads() -> Iterator[str]:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            yield (thread / "comm").read_text().strip()


# Whoever runs the tests in the background may have made them ignore Ctrl-C; the commands that they start would inherit
# that, and never end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Where Python is told to write no bytecode, each of the hundreds of processes that tests start would compile everything
# again: a third of its time. So they do write it, but not beside the sources.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".cache" / "bytecode")
