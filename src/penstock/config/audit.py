"""Settings of the endpoint that audits read files through."""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest
from typing import ClassVar, Self

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import KIB, MIB

_LEAST_CHARACTERS = 16
_MOST_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class AuditToken:
    """What an audit has to know, or nothing: then nobody gets a file. Never shown where settings are shown."""

    text: str = ""

    wanted: ClassVar[str] = f"{_LEAST_CHARACTERS} to {_MOST_CHARACTERS} characters without spaces, or nothing"
    is_secret: ClassVar[bool] = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError if it is neither."""
        is_plain = text.isascii() and text.isprintable() and " " not in text
        if text and not (is_plain and _LEAST_CHARACTERS <= len(text) <= _MOST_CHARACTERS):
            raise ValueError(text)
        return cls(text)

    def admits(self, text: str) -> bool:
        """In a time that does not tell how much of it is right."""
        return bool(self.text) and compare_digest(self.text.encode(), text.encode())

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return "[hidden]" if self.text else ""

    def __repr__(self) -> str:
        return f"AuditToken({str(self)!r})"


@section(scope=Scope.NODE)
class AuditSettings(Section):
    token: AuditToken = setting(
        AuditToken(),
        name="audit.token",
        doc="Whoever knows it may read the segment files of this node, all records included, as `penstock pipeline run "
        "audit` does. Nobody may without one. It travels as it is, so use it where the network is your own, and give "
        "it in the file or the environment, not as a flag that others can see.",
    )
    bytes_per_second: int = setting(
        50 * MIB,
        name="audit.bytes.per.second",
        at_least=64 * KIB,
        doc="How much all audits together read from this node in a second.",
    )
