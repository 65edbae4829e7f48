"""How one API's versions differ by more than fields that came and went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """Requests: bytes → by field name → `lift_pivot` → `adjust_request` → handler.

    Responses: handler → `adjust_response` → `lower_pivot` → by field name → bytes.
    """

    api_key: int
    # What handlers see, where the newest version's class lacks something that older versions say.
    request: type | None = None
    response: type | None = None
    # Versions up to this one are built differently; the two functions translate between it and what handlers see.
    pivot: int = -1
    lift_pivot: Callable[[Any], Any] | None = None
    lower_pivot: Callable[[Any], Any] | None = None
    # What a version means beyond its fields: given the request or response as handlers see it, and the version.
    adjust_request: Callable[[Any, int], Any] | None = None
    adjust_response: Callable[[Any, int], Any] | None = None
