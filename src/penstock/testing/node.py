"""The node, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TypeVar

import uvloop

from penstock.clock import SteppedClock
from penstock.config.load import load_settings
from penstock.config.settings import Settings
from penstock.disk.interface import Disk
from penstock.disk.local import LocalDisk
from penstock.node.assemble import Running, running

T = TypeVar("T")

_MS = timedelta(milliseconds=1)

# A test waits for nothing: groups form at once, dead members are found soon, ports are free ones. And it finds only the
# topics that it has made: usage, which has one of its own, is metered where a test asks for it.
DEFAULTS = {
    "listen": "127.0.0.1:0",
    "http": "127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "4",
    "usage.emit.interval.ms": "0",
}


class TestNode:
    """Use it through `node()`. Safe from any thread but the node's own."""

    # Not a test class, whatever its name looks like to pytest.
    __test__ = False

    def __init__(self, data_dir: str, settings: Mapping[str, str], disk: Disk, ahead: timedelta) -> None:
        flags = {**DEFAULTS, **settings, "data.dir": data_dir}
        self.data_dir = data_dir
        self._settings: Settings = load_settings(environment={}, flags=flags)
        self._disk = disk
        self._clock = SteppedClock(ahead // _MS)
        self._loop = uvloop.new_event_loop()
        self._ready: Future[Running] = Future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-node", daemon=True)

    @property
    def bootstrap(self) -> str:
        """For a client's bootstrap.servers."""
        return str(self._ready.result().kafka)

    @property
    def http(self) -> str:
        return f"http://{self._ready.result().http}"

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def advance(self, **duration: float) -> None:
        """Time goes forward, as in `advance(days=15)` or `advance(milliseconds=10)`; what falls due happens first."""
        by_ms = timedelta(**duration) // _MS
        self._call(lambda: self._clock.advance(by_ms))

    def metric(self, name: str, **labels: str) -> float | None:
        """One sample as /metrics would show it now."""
        metrics = self._ready.result().metrics
        return self._call(lambda: metrics.value(name, **labels))

    def start(self) -> None:
        self._thread.start()
        self._ready.result()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Again: nothing. Raises what it ended with, unless it was asked for."""
        if self._thread.is_alive():
            # It may end by itself in this moment.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        if (failure := self.failure()) is not None:
            raise failure

    def failure(self, timeout_s: float = 0) -> BaseException | None:
        """Why it ended by itself; told once."""
        self._thread.join(timeout_s)
        failure, self._failure = self._failure, None
        return failure

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._loop.create_task(self._serve())
        try:
            self._loop.run_until_complete(asyncio.wait([serving]))
        finally:
            self._loop.close()
        error = serving.exception()
        if error is not None:
            # Raised again in the test that started it.
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        async with running(self._settings, self._clock, self._disk) as node:
            self._ready.set_result(node)
            await node.until(self._stopping)


@contextmanager
def node(
    settings: Mapping[str, str] | None = None,
    *,
    data_dir: str | None = None,
    disk: Disk | None = None,
    ahead: timedelta = timedelta(),
) -> Iterator[TestNode]:
    """A node on free ports of the loopback interface. Without `data_dir` its data goes when it stops.

    `settings` are given by name, as in a configuration file. Its clock begins `ahead` of real time: for data of a node
    whose clock was advanced, so that time does not go back for them.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary:
        test_node = TestNode(data_dir or temporary, settings or {}, disk or LocalDisk(), ahead)
        test_node.start()
        try:
            yield test_node
            unexpected = test_node.metric("penstock_unexpected_errors_total") if test_node.is_running else 0
        finally:
            test_node.stop()
        assert not unexpected, f"{unexpected:.0f} requests failed unexpectedly: the log has the tracebacks"
