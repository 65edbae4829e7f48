"""How much of one turn of the event loop goes into looking for keys, whoever and however many send."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache

from penstock.errors import PenstockError
from penstock.replication.key_checks import MAX_COMPACTED_ELEMENTS, KeyChecks
from penstock.wire.batch import read_header
from penstock.wire.records import Record, build_batch

ZSTD = 4
HEAVY = MAX_COMPACTED_ELEMENTS // 2 - 10


@cache
def batch_of(count: int, key: bytes | None = b"k", compression: int = 0) -> bytes:
    return bytes(build_batch([Record(place, 0, key, b"") for place in range(count)], compression=compression))


def looked_at(checks: KeyChecks, batch: bytes, sender: object) -> bool:
    if not checks.has_time_for(read_header(batch), sender):
        return False
    with suppress(PenstockError):
        checks.check(memoryview(batch), sender)
    return True


def test_a_hundred_senders_do_not_hold_the_loop_for_a_hundred_shares() -> None:
    async def life() -> None:
        checks = KeyChecks()
        senders = [object() for _ in range(100)]
        for _ in range(2):
            done = [sender for sender in senders if looked_at(checks, batch_of(HEAVY), sender)]
            assert 1 < len(done) <= 4, "two shares in all, whoever takes them"
            assert not looked_at(checks, batch_of(HEAVY), senders[-1])
            await asyncio.sleep(0)

    asyncio.run(life())


def test_a_sender_that_takes_all_it_can_leaves_time_for_another() -> None:
    async def life() -> None:
        checks = KeyChecks()
        greedy, other = object(), object()
        assert [looked_at(checks, batch_of(HEAVY), greedy) for _ in range(4)] == [True, True, False, False]
        assert looked_at(checks, batch_of(HEAVY), other)

    asyncio.run(life())


def test_many_small_senders_all_have_time() -> None:
    async def life() -> None:
        checks = KeyChecks()
        assert all(looked_at(checks, batch_of(100), object()) for _ in range(500))

    asyncio.run(life())


def test_senders_of_small_batches_without_keys_do_not_stop_the_others() -> None:
    async def life() -> None:
        checks = KeyChecks()
        senders = [object() for _ in range(100)]
        assert all(looked_at(checks, batch_of(10, None), sender) for sender in senders)
        assert not looked_at(checks, batch_of(10, None), senders[0]), "what a refused one cost is not known"
        assert looked_at(checks, batch_of(HEAVY), object())

    asyncio.run(life())


def test_what_is_refused_counts_for_what_it_may_have_cost() -> None:
    async def life() -> None:
        checks = KeyChecks()
        senders = [object() for _ in range(100)]
        done = [sender for sender in senders if looked_at(checks, batch_of(1000, None, ZSTD), sender)]
        assert len(done) == 2
        await asyncio.sleep(0)
        assert looked_at(checks, batch_of(HEAVY), senders[-1])

    asyncio.run(life())
