"""From when to when, in microseconds since 1970; either may be open."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.pipelines.core import hours

_HOUR = re.compile(r"/hour=(\d{4}-\d{2}-\d{2}-\d{2})/")


@dataclass(frozen=True)
class TimeRange:
    """`end_us` is not in it."""

    begin_us: int | None = None
    end_us: int | None = None

    def may_hold(self, path: str) -> bool:
        """Whether rows of this file may be in the range, by the hour that its directory says."""
        found = _HOUR.search(path)
        if found is None:
            return True
        too_early = self.begin_us is not None and found[1] < hours.label(self.begin_us // hours.HOUR_US)
        too_late = self.end_us is not None and found[1] > hours.label((self.end_us - 1) // hours.HOUR_US)
        return not (too_early or too_late)
