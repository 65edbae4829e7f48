"""One broker for all bad input, and a well-behaved client beside every case of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.broker import Broker, broker_process
from tests.bad_input.raw import RawConnection


class Bystander:
    """A client that was there before the bad one came. It must notice nothing, on the connection it has."""

    def __init__(self, broker: Broker) -> None:
        self._connection: RawConnection = broker.connect()
        self._topic = broker.topic()
        self._written = 0

    def works(self) -> None:
        """Writes a record and reads it back."""
        (row,) = self._connection.ask(requests.produce(self._topic, good_batch())).responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (0, self._written)
        answer = self._connection.ask(requests.fetch(self._topic, self._written))
        assert answer.responses[0].partitions[0].records
        self._written += 1

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_process(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(autouse=True)
def bystander(broker: Broker) -> Iterator[Bystander]:
    """Around every case: the broker is there before and behind it, and met nothing that it did not expect."""
    other = Bystander(broker)
    other.works()
    yield other
    assert broker.is_alive(), "the broker has ended"
    other.works()
    other.close()
    assert broker.unexpected_errors() == 0
