"""Who wants to hear of which nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.coordination.core.limits import check_readable
from penstock.coordination.interface import Unwatch


def _nothing(prefix: str) -> None:
    return


class Watches:
    """`began` and `ended` are called with a prefix when the first comes who wants it, and when the last has gone."""

    def __init__(self, began: Callable[[str], None] = _nothing, ended: Callable[[str], None] = _nothing) -> None:
        self._began = began
        self._ended = ended
        self._callbacks: dict[str, dict[object, Callable[[str], None]]] = {}

    @property
    def prefixes(self) -> list[str]:
        return list(self._callbacks)

    def add(self, prefix: str, callback: Callable[[str], None]) -> Unwatch:
        check_readable(prefix)
        key = object()
        if prefix not in self._callbacks:
            self._callbacks[prefix] = {}
            self._began(prefix)
        self._callbacks[prefix][key] = callback
        return lambda: self._remove(prefix, key)

    def notify(self, path: str) -> None:
        """All whose prefix is at or above `path`, in a turn of the loop of their own: none disturbs another."""
        for prefix in self._callbacks:
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                self._call(prefix, path)

    def look_again(self) -> None:
        """Anything may have changed."""
        for prefix in self._callbacks:
            self._call(prefix, prefix)

    def _call(self, prefix: str, path: str) -> None:
        for callback in self._callbacks[prefix].values():
            asyncio.get_running_loop().call_soon(callback, path)

    def _remove(self, prefix: str, key: object) -> None:
        wanted = self._callbacks.get(prefix, {})
        if wanted.pop(key, None) is not None and not wanted:
            del self._callbacks[prefix]
            self._ended(prefix)
