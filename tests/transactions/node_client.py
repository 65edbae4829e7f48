"""A client of a node that looks at transactions from outside, and produces in them."""

from __future__ import annotations

import itertools
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually
from tests.transactions.raw_client import RawProducer, code_of, initialised

from penstock.testing.node import TestNode

numbers = itertools.count()


class Client:
    def __init__(self, node: TestNode, bootstrap: str | None = None) -> None:
        """`bootstrap`: if the way leads over another address."""
        self.node = node
        self.bootstrap = bootstrap or node.bootstrap
        self.connection = RawConnection(self.bootstrap)

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = RawConnection(self.bootstrap)

    def ask(self, request: Any) -> Any:
        return self.connection.ask(request)

    def topic(self, partitions: int = 1) -> str:
        name = f"topic-{next(numbers)}"
        assert self.ask(requests.create_topic(name, partitions)).topics[0].error_code is ErrorCode.none
        return name

    def produce(self, producer: RawProducer, topic: str, sequence: int, value: bytes = b"x", **more: int) -> ErrorCode:
        return code_of(self.ask(producer.produce(topic, sequence, value, now_ms=self.node.now_ms(), **more)))

    def begun(self, name: str, topic: str, version: int) -> RawProducer:
        """With a record in the topic."""
        producer = initialised(self.connection, name, version)
        if version == 1:
            assert code_of(self.ask(producer.add(topic, 0))) is ErrorCode.none
        assert self.produce(producer, topic, 0) is ErrorCode.none
        return producer

    def state(self, name: str) -> str:
        rows = self.ask(ListTransactionsRequest()).transaction_states
        (state,) = [row.transaction_state for row in rows if row.transactional_id == name]
        return str(state)

    def offsets(self, topic: str) -> tuple[int, int]:
        """The last stable offset and the high watermark."""
        (row,) = self.ask(requests.fetch(topic)).responses[0].partitions
        return row.last_stable_offset, row.high_watermark

    def until_stable(self, topic: str) -> None:
        def is_stable() -> bool:
            stable_offset, high_watermark = self.offsets(topic)
            return stable_offset == high_watermark

        eventually(is_stable, "nothing is open")
