"""What a member is told. Apart from everything else, because each of the member programs imports it when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Membership:
    """What a member is told. Absent means the library's own default."""

    bootstrap: str
    group: str
    topics: Sequence[str]
    session_timeout_ms: int = 10_000
    instance_id: str | None = None
    assignor: str | None = None
    protocol: str = "classic"
