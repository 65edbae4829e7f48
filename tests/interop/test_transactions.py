"""Transactional producers of real clients: what is committed is read once, what is not is never read."""

from __future__ import annotations

import pytest
from tests.interop.server import Server
from tests.interop.transactional import TIMEOUT_S, committed, producer_of, transaction
from tests.interop.transactional_scenarios import SCENARIOS, Scenario
from tests.interop.waiting import eventually


def test_what_is_committed_is_read_and_what_is_aborted_is_not(server: Server) -> None:
    topic, producer = server.topic(partitions=3), producer_of(server, server.name("id"))
    expected = []
    for round_number in range(6):
        values = [f"{round_number}-{place}" for place in range(5)]
        transaction(producer, topic, *values, partitions=3)
        if round_number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            expected += values
    eventually(lambda: sorted(committed(server, topic, 3)) == sorted(expected), "all that was committed is there")


def test_what_is_not_ended_is_not_read_and_keeps_nobody_else_from_writing(server: Server) -> None:
    topic = server.topic()
    first, second = producer_of(server, server.name("id")), producer_of(server, server.name("id"))
    transaction(second, topic, "before")
    second.commit_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["before"], "it is committed")
    transaction(first, topic, "open")
    transaction(second, topic, "behind")
    second.commit_transaction(TIMEOUT_S)
    assert committed(server, topic) == ["before"]
    first.abort_transaction(TIMEOUT_S)
    eventually(lambda: committed(server, topic) == ["before", "behind"], "what was behind it can be read")


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
def test_a_client(server: Server, scenario: Scenario) -> None:
    scenario(server)
