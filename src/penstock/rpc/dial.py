"""One attempt to connect: a task, which is well spent on what happens once per connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from penstock.clock import Clock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.units import SECOND_MS

# Longer than a lost first packet takes to be sent again, shorter than a session.
DIAL_TIMEOUT_MS = 5 * SECOND_MS
_LAST_PORT = 2**16 - 1


class Dial:
    """`outcome` is the transport, or why there is none; nothing after `cancel`."""

    def __init__(self, address: Address, protocol: Callable[[], asyncio.BaseProtocol], clock: Clock) -> None:
        self.outcome: Later[asyncio.BaseTransport | Unanswered] = Later()
        self._address = address
        self._timer = clock.call_at(clock.now_ms() + DIAL_TIMEOUT_MS, self._give_up)
        self._task = asyncio.get_running_loop().create_task(_connect(address, protocol))
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        self._timer.cancel()
        self._task.cancel()

    def _give_up(self) -> None:
        self._task.cancel()
        self.outcome.complete(
            Unanswered(How.TIMED_OUT, f"{self._address} accepted no connection in {DIAL_TIMEOUT_MS} ms")
        )

    def _done(self, task: asyncio.Task[asyncio.BaseTransport | Unanswered]) -> None:
        self._timer.cancel()
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self.outcome.complete(Unanswered(How.STOPPED, f"dialling {self._address} failed unexpectedly: {error}"))
            raise error
        self.outcome.complete(task.result())


async def _connect(
    address: Address, protocol: Callable[[], asyncio.BaseProtocol]
) -> asyncio.BaseTransport | Unanswered:
    loop = asyncio.get_running_loop()
    if not address.host or not 0 < address.port <= _LAST_PORT:
        # The loop would take no host for this one, and of the port what fits: refused there would say nothing.
        return Unanswered(How.UNREACHABLE, f"{address} is no address")
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        return Unanswered(How.UNREACHABLE, f"{address} is no address: {error}")
    failures: list[Unanswered] = []
    # One by one, because the loop's own way joins their errors into one that says nothing.
    for family, _, _, _, place in found:
        try:
            transport, _ = await loop.create_connection(protocol, str(place[0]), address.port, family=family)
            return transport
        except OSError as error:
            failures.append(lost(error, f"{address}"))
    # Refused only if nobody listens at any of its addresses.
    return next((failure for failure in failures if failure.how is not How.REFUSED), failures[0])


def is_own_end(transport: asyncio.BaseTransport) -> bool:
    """Whether it leads back to itself: a dial to a free local port may be given that very port to dial from. Then

    nobody listens there.
    """
    if transport.is_closing():
        # uvloop has no socket to ask any more.
        return False
    ours = transport.get_extra_info("sockname")
    return ours is not None and ours == transport.get_extra_info("peername")


def lost(error: Exception | None, whose: str) -> Unanswered:
    """What the end of a connection, or the failure to make one, says about the peer."""
    match error:
        case None:
            return Unanswered(How.CLOSED, f"{whose} closed the connection")
        case ConnectionRefusedError():
            return Unanswered(How.REFUSED, f"nobody listens at {whose}")
        case ConnectionResetError() | BrokenPipeError() | ConnectionAbortedError():
            return Unanswered(How.RESET, f"{whose} broke off the connection")
        case TimeoutError():
            return Unanswered(How.TIMED_OUT, f"{whose}: {error}")
        case OSError():
            return Unanswered(How.UNREACHABLE, f"{whose}: {error}")
        case _:
            # A callback of ours raised; the loop tells that to whoever listens.
            return Unanswered(How.STOPPED, f"given up by ourselves: {error}")
