"""Answers that come later."""

import asyncio

import pytest

from penstock.later import Later, awaiting, gather


def test_the_first_of_answer_and_deadline_wins() -> None:
    later: Later[str] = Later()
    seen: list[str] = []
    later.when_done(lambda done: seen.append(done.result()))
    later.complete("answer")
    later.complete("deadline")
    later.fail(RuntimeError("too late"))
    later.when_done(lambda done: seen.append(done.result()))
    assert seen == ["answer", "answer"]


def test_a_mapped_answer_carries_failures_on() -> None:
    later: Later[int] = Later()
    doubled = later.map(lambda value: value * 2)
    broken = later.map(lambda value: 1 // 0)
    later.complete(21)
    assert doubled.result() == 42
    with pytest.raises(ZeroDivisionError):
        broken.result()


def test_an_answer_that_another_is_asked_for_comes_when_that_does() -> None:
    first: Later[int] = Later()
    second: Later[str] = Later()
    chained = first.then(lambda value: second if value else Later.of("at once"))
    first.complete(1)
    assert not chained.done
    second.complete("later")
    assert chained.result() == "later"
    assert Later.of(0).then(lambda value: Later.of(value + 1)).result() == 1


def test_a_chain_carries_failures_on() -> None:
    failed: Later[int] = Later()
    failed.fail(KeyError())
    broken: Later[int] = Later.of(0).then(lambda value: Later.of(1 // value))
    with pytest.raises(KeyError):
        failed.then(Later.of).result()
    with pytest.raises(ZeroDivisionError):
        broken.result()
    with pytest.raises(KeyError):
        Later.of(0).then(lambda value: failed).result()


def test_gathered_answers_keep_their_order_whatever_order_they_come_in() -> None:
    laters: list[Later[int]] = [Later(), Later(), Later()]
    gathered = gather(laters)
    for index in (2, 0, 1):
        assert not gathered.done
        laters[index].complete(index)
    assert gathered.result() == [0, 1, 2]
    empty: list[Later[int]] = []
    assert gather(empty).result() == []


def test_one_failure_fails_what_was_gathered() -> None:
    laters: list[Later[int]] = [Later(), Later()]
    gathered = gather(laters)
    laters[1].fail(KeyError("gone"))
    laters[0].complete(1)
    with pytest.raises(KeyError):
        gathered.result()


def test_a_coroutine_answers_with_its_result_or_its_error() -> None:
    async def scenario() -> None:
        async def good() -> int:
            await asyncio.sleep(0)
            return 7

        async def bad() -> int:
            raise ValueError("no")

        assert await awaiting(good()).wait() == 7
        with pytest.raises(ValueError, match="no"):
            await awaiting(bad()).wait()

    asyncio.run(scenario())
