"""Options as Spark hands them over: text by name, in any case. Reading one gives a value, or says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from penstock.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

# As Spark's JavaUtils.timeStringAs; microseconds are below what a trigger can wait for.
_DURATION = re.compile(r"(-?[0-9]{1,18})(us|ms|s|m|min|h|d)?")
_UNIT_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MAX = 2**63 - 1


class OptionError(ValueError):
    """An option that is missing, unknown, or not what it must be. The text names it and says what to do."""


class OptionValues:
    """Looked up without regard to case, which Spark does not keep; errors show names as the documents write them."""

    def __init__(
        self, options: Mapping[str, str], known: Iterable[str], refused: Mapping[str, str] | None = None
    ) -> None:
        """OptionError for an option that is in `refused`, with the text there, or not in `known`, with the nearest."""
        self._names = {name.lower(): name for name in known}
        self._texts = {name.lower(): text for name, text in options.items()}
        for name in sorted(options):
            if text := (refused or {}).get(name.lower()):
                raise OptionError(text)
            if name.lower() not in self._names:
                raise OptionError(f"Unknown option '{name}'. {self._nearest(name)}")

    def _nearest(self, name: str) -> str:
        near = get_close_matches(name.lower(), self._names, n=2)
        if not near:
            return "See docs/spark.md for all options."
        return f"Did you mean {' or '.join(repr(self._names[match]) for match in near)}?"

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def text(self, name: str) -> str | None:
        return self._texts.get(name.lower())

    def integer(self, name: str, *, at_least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        value = int(text) if _INTEGER.fullmatch(text.strip()) else None
        if value is None or not at_least <= value <= _LONG_MAX:
            wanted = "positive" if at_least == 1 else f"an integer of at least {at_least}"
            raise OptionError(f"{name} must be {wanted}, got '{text}'")
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        value = {"true": True, "false": False}.get(text.strip().lower())
        if value is None:
            raise OptionError(f"{name} must be true or false, got '{text}'")
        return value

    def choice(self, name: str, choices: Iterable[str], *, default: str) -> str:
        """One of `choices`, which are lower case."""
        text = self.text(name)
        value = default if text is None else text.strip().lower()
        if value not in choices:
            raise OptionError(f"{name} must be one of {', '.join(choices)}, got '{text}'")
        return value

    def duration_ms(self, name: str, *, default_ms: int) -> int:
        """A time as Spark writes it: 500 (milliseconds), 500ms, 30s, 15m, 1h."""
        text = self.text(name)
        if text is None:
            return default_ms
        match = _DURATION.fullmatch(text.strip().lower())
        number, unit = (int(match[1]), match[2] or "ms") if match else (-1, "ms")
        if number < 0:
            raise OptionError(f"{name} must be a time such as 500ms, 30s, 15m or 1h, got '{text}'")
        return number // 1000 if unit == "us" else number * _UNIT_MS[unit]
