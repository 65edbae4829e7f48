"""What the fuzzer feeds is a target each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.fuzz.corpus import spoiled


@dataclass(frozen=True)
class Target:
    # Bytes that must be accepted.
    valid: Callable[[Random], bytes]
    # True: accepted. False: refused as it should be.
    accepts: Callable[[bytes], bool]
    spoil: Callable[[bytes, Random], bytes] = spoiled
