"""A node's threads run from the start."""

from __future__ import annotations

import subprocess
import sys
import threading

from penstock.node.pools import started_pool

_NO_MORE_MEMORY = """
import resource
from penstock.errors import PenstockError
from penstock.node.pools import started_pool
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), used + (1 << 20)))
try:
    started_pool(2, "sync")
except PenstockError as error:
    print(error)
"""


def test_all_threads_run_before_there_is_work() -> None:
    with started_pool(5, "early"):
        assert sum(thread.name.startswith("early") for thread in threading.enumerate()) == 5


def test_where_one_cannot_be_started_the_node_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", _NO_MORE_MEMORY], capture_output=True, text=True, timeout=60)
    assert "a thread cannot be started" in done.stdout, done.stderr
