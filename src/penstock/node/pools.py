"""Threads that wait for the disk."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from penstock.errors import PenstockError, Problem


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """All of its threads run: one that could not be started when it is needed would leave the sync that it is for

    begun for ever, and its log would never sync again. Raises PenstockError.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    # The pool starts one when all others are busy.
    all_there = Barrier(threads)
    try:
        for _ in range(threads):
            pool.submit(all_there.wait)
    except RuntimeError as error:
        all_there.abort()
        pool.shutdown()
        text = f"a thread cannot be started: {error}. Allow this process more of them, or more memory"
        raise PenstockError(Problem.INVALID_CONFIG, text) from error
    return pool
