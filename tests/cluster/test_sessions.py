"""A broker that loses its session with ZooKeeper: others go on without it, and it comes back as another life."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from tests.cluster.brokers import WAIT_S, Brokers, cluster_on, created, eventually, short_sessions
from tests.coordination.link import Link, linked

from penstock.testing.zookeeper import TestZooKeeper

SESSION = {"zookeeper.session.timeout.ms": "1000"}


class Line:
    """A link on a loop of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, link: Link, coordination: str) -> None:
        self._loop = loop
        self._link = link
        self.coordination = coordination

    def cut(self) -> None:
        self._call(self._link.cut)

    def heal(self) -> None:
        self._call(self._link.heal)

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(call)
        assert done.wait(WAIT_S)


@contextmanager
def line_to(server: TestZooKeeper, chroot: str) -> Iterator[Line]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    link = linked(server.settings(chroot))
    try:
        opened, settings = asyncio.run_coroutine_threadsafe(link.__aenter__(), loop).result(WAIT_S)
        yield Line(loop, opened, str(settings.coordination))
        asyncio.run_coroutine_threadsafe(link.__aexit__(None, None, None), loop).result(WAIT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)


@pytest.fixture(scope="module")
def server() -> Iterator[TestZooKeeper]:
    with short_sessions() as running:
        yield running


@pytest.fixture
def stack(server: TestZooKeeper) -> Iterator[tuple[Brokers, Line]]:
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster_on(server))
        yield brokers, stack.enter_context(line_to(server, brokers.chroot))
        for node_id in list(brokers.nodes):
            brokers.stop(node_id)


def written(brokers: Brokers, asked: int, value: str) -> None:
    producer = Producer({"bootstrap.servers": brokers.nodes[asked].bootstrap, "acks": "all", "log_level": 0})
    errors: list[object] = []
    producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None]


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_lost_session_costs_leadership_and_comes_to_an_end(stack: tuple[Brokers, Line], is_controller: bool) -> None:
    brokers, line = stack
    away, there = (1, 2) if is_controller else (2, 1)
    for node_id in (1, 2, 3):
        brokers.start(node_id, **SESSION, **({"coordination": line.coordination} if node_id == away else {}))
    eventually(lambda: brokers.seen_by(3) == ({1, 2, 3}, 1))
    created(brokers.admin(3), NewTopic("orders", 1, replica_assignment=[[away, there, 3]]))
    written(brokers, 3, "before")
    line.cut()
    eventually(lambda: brokers.seen_by(3)[0] == {there, 3})
    eventually(lambda: brokers.partitions(3, "orders")[0][0] == there)
    assert brokers.seen_by(3)[1] != away
    written(brokers, 3, "meanwhile")
    line.heal()
    eventually(lambda: brokers.partitions(3, "orders") == {0: (there, [away, there, 3], {1, 2, 3})})
    eventually(lambda: brokers.partitions(away, "orders") == brokers.partitions(3, "orders"))
    written(brokers, away, "after")


def test_a_line_that_fails_for_a_moment_costs_nothing(stack: tuple[Brokers, Line]) -> None:
    brokers, line = stack
    brokers.start(1, 2, **SESSION)
    brokers.start(3, **SESSION, coordination=line.coordination)
    created(brokers.admin(1), NewTopic("orders", 1, replica_assignment=[[3, 1, 2]]))
    line.cut()
    written(brokers, 1, "while suspended")
    line.heal()
    written(brokers, 1, "again")
    assert brokers.partitions(1, "orders")[0][0] == 3


def test_a_broker_that_was_replaced_while_it_was_cut_off_says_so_and_ends(stack: tuple[Brokers, Line]) -> None:
    brokers, line = stack
    session = {"zookeeper.session.timeout.ms": "500"}
    brokers.start(2, **session, coordination=line.coordination)
    replaced = brokers.nodes.pop(2)
    line.cut()
    # It waits as long as its own session would take.
    brokers.start(2, **{"zookeeper.session.timeout.ms": "10000"})
    line.heal()
    assert "broker id 2 is in use" in str(replaced.failure(WAIT_S))
    assert brokers.seen_by(2) == ({2}, 2)
