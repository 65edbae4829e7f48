"""Memory for requests runs short: large requests are slowed down, small ones are not, and then it is over."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection, packed
from tests.interop.waiting import eventually

from penstock.testing import TestNode, node
from penstock.units import KIB, MIB

LIMIT = 2 * MIB
# What two requests of 900 KiB have taken that miss 100 each. From half of the limit on there are throttles, short ones.
SHORT = LIMIT * 3 / 4


@pytest.fixture
def tight() -> Iterator[TestNode]:
    with node({"queued.max.request.bytes": str(LIMIT)}) as running:
        with RawConnection(running.bootstrap) as connection:
            assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        yield running


def produce_frame(size: int) -> bytes:
    body = packed(requests.produce("orders", good_batch(value=bytes(size))), 1)
    return struct.pack(">i", len(body)) + body


def throttle_ms(connection: RawConnection, size: int) -> int:
    answer = connection.ask(requests.produce("orders", good_batch(value=bytes(size))))
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time.total_seconds() * 1000)


def test_large_requests_are_throttled_under_pressure_and_recover(tight: TestNode) -> None:
    with RawConnection(tight.bootstrap) as slow, RawConnection(tight.bootstrap) as client:
        assert throttle_ms(client, 300 * KIB) == 0
        tight.advance(seconds=12)  # its buffer goes back
        slow_frame = produce_frame(900 * KIB)
        many = [RawConnection(tight.bootstrap) for _ in range(2)]
        with ExitStack() as stack:
            for each in (slow, *map(stack.enter_context, many)):
                each.send_bytes(slow_frame[: -100 * KIB])
            eventually(lambda: taken(tight) > SHORT, "memory is short")
            assert throttle_ms(client, 10) == 0, "a small request takes nothing that is short"
            asked = requests.produce("orders", good_batch(value=bytes(300 * KIB)))
            number = client.send(asked)
            eventually_with_time(tight, lambda: throttled(tight) > 0, "the request had its turn")
            answer = client.receive(asked, number)
            assert 0 < answer.throttle_time.total_seconds() <= 1
            for each in (slow, *many):
                each.send_bytes(slow_frame[-100 * KIB :])
                each.receive_frame()
        tight.advance(seconds=2)
        tight.advance(seconds=12)
        assert throttle_ms(client, 300 * KIB) == 0
        assert tight.metric("penstock_throttle_seconds_total") != 0


def test_a_throttled_connection_is_not_read_from_until_its_time_is_over(tight: TestNode) -> None:
    """A client that does not care gains nothing by it."""
    with ExitStack() as stack:
        many = [stack.enter_context(RawConnection(tight.bootstrap)) for _ in range(3)]
        for each in many:
            each.send_bytes(produce_frame(900 * KIB)[: -100 * KIB])
        eventually(lambda: taken(tight) > SHORT, "memory is short")
        client = stack.enter_context(RawConnection(tight.bootstrap, timeout_s=0.2))
        large, small = requests.produce("orders", good_batch(value=bytes(300 * KIB))), requests.metadata()
        numbers = [client.send(large), client.send(small)]
        eventually_with_time(tight, lambda: throttled(tight) > 0, "the request had its turn")
        assert client.receive(large, numbers[0]).throttle_time.total_seconds() > 0
        with pytest.raises(TimeoutError):
            client.receive_frame()
        tight.advance(seconds=1)
        assert client.receive(small, numbers[1]).brokers


def test_many_large_requests_through_a_small_budget_all_arrive(tight: TestNode) -> None:
    """Thirty producers of nearly a megabyte each, where two fit: everybody holds and waits, and it still moves."""
    errors: list[int] = []

    def send() -> None:
        with RawConnection(tight.bootstrap, timeout_s=60) as connection:
            for _ in range(2):
                answer = connection.ask(requests.produce("orders", good_batch(value=bytes(900 * KIB))))
                errors.append(answer.responses[0].partition_responses[0].error_code)

    threads = [threading.Thread(target=send) for _ in range(30)]
    for thread in threads:
        thread.start()
    peak = 0.0
    for thread in threads:
        while thread.is_alive():
            peak = max(peak, taken(tight))
            thread.join(0.01)
    assert errors == [0] * 60
    assert LIMIT / 2 < peak <= LIMIT + MIB
    assert tight.metric("penstock_log_end_offset", topic="orders", partition="0") == 60


def taken(node: TestNode) -> float:
    return node.metric("penstock_request_memory_bytes") or 0.0


def throttled(node: TestNode) -> float:
    return node.metric("penstock_throttled_requests_total") or 0.0


def eventually_with_time(node: TestNode, condition: object, what: str) -> None:
    """The node's time passes while we wait: in steps much shorter than a throttle, which may last 100 ms."""
    assert callable(condition)

    def check() -> bool:
        node.advance(milliseconds=10)
        return bool(condition())

    eventually(check, what)
