"""The way to one peer for one purpose: at most one connection, made when something is asked, again when it has gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.clock import Clock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.connection import Connection
from penstock.rpc.core.backoff import Backoff
from penstock.rpc.core.call import Call
from penstock.rpc.core.unanswered import How, Unanswered

T = TypeVar("T")


class Link:
    def __init__(self, address: Address, clock: Clock, when_lost: Callable[[Unanswered], None]) -> None:
        """`when_lost`: the peer, or the network, has ended a connection that was up, or the peer has refused one."""
        self._address = address
        self._clock = clock
        self._when_lost = when_lost
        self._backoff = Backoff()
        self._connection: Connection | None = None

    def call(self, call: Call[T], timeout_ms: int) -> Later[T | Unanswered]:
        """What is asked while the peer is not reached waits for the next attempt, and fails as that does: whoever

        tries again at once is slowed down by it.
        """
        if self._connection is None:
            self._connection = Connection(self._clock, self._ended)
            self._connection.dial(self._address, self._backoff.next_dial_ms(self._clock.now_ms()))
        return self._connection.ask(call, timeout_ms)

    def move(self, address: Address) -> None:
        """The peer has registered, here or elsewhere: what was known of reaching it is void."""
        moved, self._address = address != self._address, address
        self._backoff.forget()
        connection = self._connection
        if connection is None:
            return
        if connection.is_waiting:
            connection.dial(address, self._backoff.next_dial_ms(self._clock.now_ms()))
        elif moved:
            connection.close(f"the broker has moved to {address}")

    def close(self, why: str) -> None:
        if self._connection is not None:
            self._connection.close(why)

    def _ended(self, connection: Connection, why: Unanswered) -> None:
        self._connection = None
        if connection.has_answered:
            self._backoff.proven()
        if why.how is How.REFUSED or (connection.was_up and why.how is not How.STOPPED):
            self._when_lost(why)
