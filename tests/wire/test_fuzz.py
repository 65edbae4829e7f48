"""Wrong bytes for every reader, a few seconds of them; `tools/fuzz.py` has the rest."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.corpus import spoiled
from tests.fuzz.peers import PEERS
from tests.fuzz.targets import TARGETS, feed, one_input

_REQUESTS = [name for name in TARGETS if name not in PEERS and not name.startswith(("frame", "batch"))]
_OTHERS = ["frame 0", "batch 0", "fetch answer 0", "received batches 0", "private message", "private reply"]


def test_spoiled_bytes_are_accepted_or_refused_and_nothing_else() -> None:
    random = Random()
    for number in range(5000):
        feed(*one_input(1, number, random))


@pytest.mark.parametrize("name", TARGETS)
def test_valid_bytes_are_accepted(name: str) -> None:
    for seed in range(3):
        assert TARGETS[name].accepts(TARGETS[name].valid(Random(seed)))


@settings(max_examples=400)
@given(name=st.sampled_from(_REQUESTS), raw=st.binary(max_size=100))
def test_any_bytes_are_a_request_or_malformed(name: str, raw: bytes) -> None:
    feed(name, raw, must_accept=False)


@settings(max_examples=200)
@given(name=st.sampled_from(_REQUESTS), seed=st.integers(0, 100), random=st.randoms(use_true_random=False))
def test_spoiled_requests_are_read_or_malformed(name: str, seed: int, random: Random) -> None:
    feed(name, spoiled(TARGETS[name].valid(Random(seed)), random), must_accept=False)


@pytest.mark.parametrize("name", _OTHERS)
@settings(max_examples=100)
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_accepted_or_refused(name: str, raw: bytes) -> None:
    feed(name, raw, must_accept=False)
