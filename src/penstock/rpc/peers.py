"""The other brokers, by node id: where they are, and the connections to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from penstock.clock import Clock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.core.call import Call
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.dial import Dial, is_own_end, lost
from penstock.rpc.link import Link

T = TypeVar("T")


class Purpose(Enum):
    """Each has a connection of its own, because a server answers what comes on one in order."""

    # Megabytes, and long polls.
    REPLICATION = auto()
    # Small and urgent: ISR changes, metadata.
    CONTROL = auto()
    # What clients asked of another broker; may take as long as they allow.
    FORWARDING = auto()
    # What leaders ask the coordinators of transactions: producers wait.
    VERIFICATION = auto()
    # What ends transactions; answered when it is committed.
    MARKERS = auto()


WhenLost = Callable[[int, Purpose, Unanswered], None]


class Peers:
    """`when_lost` hears of each connection that was up and ended without our doing, before those who wait on it, and

    of each that was REFUSED. That a broker is dead is shown by such an end with RESET or CLOSED, or by that, and a
    `probe` right after it that is REFUSED. A process that is killed closes its connections either way, and so does one
    that stops or finds them idle.
    """

    def __init__(self, clock: Clock, when_lost: WhenLost) -> None:
        self._clock = clock
        self._when_lost = when_lost
        self._addresses: dict[int, Address] = {}
        self._links: dict[tuple[int, Purpose], Link] = {}
        self._probes: set[Dial] = set()
        self._closed = False

    def register(self, node_id: int, address: Address) -> None:
        """To be called whenever the broker registers, also at the same address: it is dialled again without delay."""
        self._addresses[node_id] = address
        for purpose in Purpose:
            if (link := self._links.get((node_id, purpose))) is not None:
                link.move(address)

    def forget(self, node_id: int) -> None:
        """The broker has gone for good, or its address is not to be believed any more."""
        self._addresses.pop(node_id, None)
        for purpose in Purpose:
            if (link := self._links.pop((node_id, purpose), None)) is not None:
                link.close(f"broker {node_id} is not in the cluster any more")

    def call(self, node_id: int, purpose: Purpose, call: Call[T], timeout_ms: int) -> Later[T | Unanswered]:
        """Requests for one purpose are sent and answered in the order of these calls. The deadline counts from now,

        and an answer that comes after it goes nowhere.
        """
        if (refused := self._refusal(node_id)) is not None:
            return Later.of(refused)
        link = self._links.get((node_id, purpose))
        if link is None:
            when_lost = partial(self._when_lost, node_id, purpose)
            link = self._links[node_id, purpose] = Link(self._addresses[node_id], self._clock, when_lost)
        return link.call(call, timeout_ms)

    def ask_at(self, address: Address, call: Call[T], timeout_ms: int) -> Later[T | Unanswered]:
        """Whoever is there, on a connection for this alone."""
        link = Link(address, self._clock, lambda _: None)
        answer = link.call(call, timeout_ms)
        answer.when_done(lambda _: link.close("it has been answered"))
        return answer

    def probe(self, node_id: int) -> Later[Unanswered | None]:
        """A connection of its own, made at once whatever there is and dropped again. None: somebody listens."""
        if (refused := self._refusal(node_id)) is not None:
            return Later.of(refused)
        address = self._addresses[node_id]
        dial = Dial(address, asyncio.Protocol, self._clock)
        self._probes.add(dial)
        probed: Later[Unanswered | None] = Later()

        def dialled(done: Later[asyncio.BaseTransport | Unanswered]) -> None:
            self._probes.discard(dial)
            outcome = done.result()
            if isinstance(outcome, Unanswered):
                probed.complete(outcome)
                return
            is_own = is_own_end(outcome)
            outcome.close()
            probed.complete(lost(ConnectionRefusedError(), str(address)) if is_own else None)

        dial.outcome.when_done(dialled)
        return probed

    def close(self) -> None:
        """All requests fail with STOPPED, and so does every one from now on."""
        self._closed = True
        for link in list(self._links.values()):
            link.close("this broker is stopping")
        for dial in list(self._probes):
            dial.outcome.complete(Unanswered(How.STOPPED, "this broker is stopping"))
            dial.cancel()

    def _refusal(self, node_id: int) -> Unanswered | None:
        if self._closed:
            return Unanswered(How.STOPPED, "this broker is stopping")
        if node_id not in self._addresses:
            return Unanswered(How.UNKNOWN_PEER, f"no address is known for broker {node_id}")
        return None
