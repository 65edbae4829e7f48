"""An answer that comes later: callbacks, not tasks, because a task per request costs more than the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, Generic, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")

_PENDING: Final = object()


class Later(Generic[T]):
    """Completed or failed once, on the event loop's thread; later attempts are ignored, so that an answer

    and its deadline may race. Callbacks run at once, in the order in which they were added.
    """

    __slots__ = ("_callbacks", "_error", "_value")

    def __init__(self) -> None:
        self._value: object = _PENDING
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Later[T]], None]] = []

    @classmethod
    def of(cls, value: T) -> Later[T]:
        later = cls()
        later._value = value
        return later

    @property
    def done(self) -> bool:
        return self._value is not _PENDING or self._error is not None

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        if self._value is _PENDING:
            raise RuntimeError("this answer is not there yet: use when_done")
        return cast(T, self._value)

    def complete(self, value: T) -> None:
        if not self.done:
            self._value = value
            self._settle()

    def fail(self, error: BaseException) -> None:
        if not self.done:
            self._error = error
            self._settle()

    def settle_like(self, other: Later[T]) -> None:
        """Takes over what another one, which is done, came to."""
        try:
            self.complete(other.result())
        except BaseException as error:
            self.fail(error)

    def when_done(self, callback: Callable[[Later[T]], None]) -> None:
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def map(self, function: Callable[[T], U]) -> Later[U]:
        mapped: Later[U] = Later()

        def settle(source: Later[T]) -> None:
            try:
                mapped.complete(function(source.result()))
            except BaseException as error:
                mapped.fail(error)

        self.when_done(settle)
        return mapped

    def then(self, function: Callable[[T], Later[U]]) -> Later[U]:
        """As `map`, where what the function returns comes later, too."""
        chained: Later[U] = Later()

        def settle(source: Later[T]) -> None:
            try:
                function(source.result()).when_done(chained.settle_like)
            except BaseException as error:
                chained.fail(error)

        self.when_done(settle)
        return chained

    def _settle(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    async def wait(self) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(source: Later[T]) -> None:
            if future.done():
                return
            try:
                future.set_result(source.result())
            except BaseException as error:
                future.set_exception(error)

        self.when_done(settle)
        return await future


def awaiting(coroutine: Coroutine[object, object, T]) -> Later[T]:
    """For the few calls that really await: runs the coroutine as a task and answers with its result."""
    later: Later[T] = Later()
    task = asyncio.get_running_loop().create_task(coroutine)

    def settle(done: asyncio.Task[T]) -> None:
        if done.cancelled():
            later.fail(asyncio.CancelledError())
        elif (error := done.exception()) is not None:
            later.fail(error)
        else:
            later.complete(done.result())

    task.add_done_callback(settle)
    return later


def gather(laters: Sequence[Later[T]]) -> Later[list[T]]:
    """Done when all are, with their values in order; the first failure fails it."""
    gathered: Later[list[T]] = Later()
    waiting = len(laters)
    if not laters:
        gathered.complete([])

    def arrived(done: Later[T]) -> None:
        nonlocal waiting
        waiting -= 1
        try:
            done.result()
        except BaseException as error:
            gathered.fail(error)
        if waiting == 0:
            gathered.complete([later.result() for later in laters] if not gathered.done else [])

    for later in laters:
        later.when_done(arrived)
    return gathered
