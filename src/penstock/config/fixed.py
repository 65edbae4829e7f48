"""Kafka's topic settings that have one value here, by how Penstock is built.

Tools send them with every topic, mostly with the value that already holds: that is accepted, kept and shown. Any other
value would be a promise that nobody keeps, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import PenstockError, Problem


@dataclass(frozen=True, slots=True)
class FixedSetting:
    name: str
    kind: type
    value: str
    # Why no other value can be had; ends the sentence of a refusal.
    why: str
    also_accepted: tuple[str, ...] = ()

    def check(self, text: str) -> None:
        given = text.strip().lower() if self.kind is bool else text.strip()
        if given != self.value and given not in self.also_accepted:
            raise PenstockError(
                Problem.INVALID_CONFIG, f"{self.name}={text!r} cannot be had, only {self.value!r}: {self.why}"
            )


_NO_TIERS = "all of a log is on local disk"

FIXED_SETTINGS = {
    fixed.name: fixed
    for fixed in (
        FixedSetting("compression.type", str, "producer", "batches are stored as their producer compressed them"),
        FixedSetting(
            "message.downconversion.enable",
            bool,
            "false",
            "no client that needs an older record format is served, as in Kafka 4",
            # A no-op in Kafka 4 too, and an older Kafka's default, so it is in many people's files.
            also_accepted=("true",),
        ),
        FixedSetting("preallocate", bool, "false", "segments grow with what is written"),
        FixedSetting("segment.index.bytes", int, "10485760", "an index is as large as its segment needs"),
        FixedSetting("segment.jitter.ms", int, "0", "segments are closed at segment.ms exactly"),
        FixedSetting("remote.storage.enable", bool, "false", _NO_TIERS),
        FixedSetting("local.retention.ms", int, "-2", _NO_TIERS + ", for retention.ms"),
        FixedSetting("local.retention.bytes", int, "-2", _NO_TIERS + ", up to retention.bytes"),
    )
}
