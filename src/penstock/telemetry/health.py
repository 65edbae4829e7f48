"""Whether a node can do its work, and if not, why not."""

from __future__ import annotations

from collections.abc import Callable


class Health:
    """Named checks. A part announces its check before it starts, so that a node is not ready too early.

    The words are for an operator: what is wrong, and what to do about it.
    """

    def __init__(self) -> None:
        self._why_not: dict[str, str | None] = {}
        self._watched: dict[str, Callable[[], str | None]] = {}

    def starting(self, check: str) -> None:
        self._why_not[check] = "starting"

    def ready(self, check: str) -> None:
        self._why_not[check] = None

    def failing(self, check: str, why: str) -> None:
        self._why_not[check] = why

    def watch(self, check: str, why_not: Callable[[], str | None]) -> None:
        """`why_not` is called whenever somebody asks; None is well."""
        self._watched[check] = why_not

    def why_not(self) -> dict[str, str]:
        """The checks that stand in the way; empty when the node is ready."""
        watched = {check: why_not() for check, why_not in self._watched.items()}
        return {check: why for check, why in {**self._why_not, **watched}.items() if why is not None}
