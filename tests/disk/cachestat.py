"""Whether this system tells what is in its page cache; where it does not, nothing is sent from files."""

from __future__ import annotations

from penstock.disk.page_cache import is_cached


def has_cachestat() -> bool:
    with open(__file__, "rb") as file:
        file.read()
        return is_cached(file.fileno(), 0, 1)
