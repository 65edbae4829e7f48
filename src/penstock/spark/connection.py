"""A blocking connection to one broker: the core of all connections around a socket that waits."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any, TypeVar

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from penstock.config.address import Address
from penstock.rpc.core.call import Call, call_of
from penstock.rpc.core.connection import ConnectionCore
from penstock.rpc.dial import lost
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import ClientFailure, NoAnswer
from penstock.spark.login import log_in
from penstock.spark.tls import secured
from penstock.units import SECOND_MS
from penstock.wire.malformed import Malformed
from penstock.wire.schemas import api_name

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Payload)

# Metadata of a hundred thousand partitions: a pattern is compared with all topics that there are.
MAX_ELEMENTS = 1_000_000
# Longer than a lost first packet takes to be sent again.
DIAL_TIMEOUT_MS = 5 * SECOND_MS


class Connection:
    """Introduced and, if the settings say so, secured and logged in. For one thread.

    Every method raises NoAnswer when the broker cannot be reached or understood; then it is closed.
    """

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.address = address
        self._settings = settings
        self._client_id = settings.client_id.encode()
        self._core: ConnectionCore[Call[Any]] = ConnectionCore()
        self._socket = self._dial()
        self.is_open = True
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._introduce()
        except ClientFailure:
            self.close()
            raise

    def call(self, request: Payload, answer: type[Answer]) -> Call[Answer]:
        """ClientFailure if the broker does not speak this version. For one use."""
        self._check_version(type(request))
        return call_of(request, answer, self._client_id, MAX_ELEMENTS)

    def ask(self, request: Payload, answer: type[Answer], timeout_ms: int | None = None) -> Answer:
        return self.exchange(self.call(request, answer), timeout_ms)

    def exchange(self, call: Call[T], timeout_ms: int | None = None) -> T:
        """`ask` with a request that is ready. What it returns may be a view of the receive buffer: see `receive`."""
        self.send(call, timeout_ms)
        answer: T = self.receive()
        return answer

    def send(self, call: Call[Any], timeout_ms: int | None = None) -> None:
        """The answer is for `receive`, in the order of what was sent; the time that it has begins now."""
        if not self.is_open:
            raise NoAnswer(f"the connection to {self.address} is closed")
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        if not self._core.add(call, call, timeout_ms, _now_ms()):
            raise self._ended(f"{len(self._core)} requests wait for {self.address} already")
        try:
            self._socket.settimeout(timeout_ms / 1000)
            for frame in self._core.take_unsent():
                self._socket.sendall(frame)
        except OSError as error:
            raise self._ended(lost(error, str(self.address)).text) from error

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet; views in it are valid until the next call."""
        core = self._core
        try:
            while (answer := core.next_answer()) is None:
                core.make_room()
                self._wait()
        except Malformed as error:
            raise self._ended(f"{self.address} sent what is no answer: {error}") from error
        return answer[1]

    def speaks(self, request: type[Payload]) -> bool:
        oldest, newest = self._versions.get(request.__api_key__, (0, -1))
        return oldest <= request.__version__ <= newest

    def close(self) -> None:
        self.is_open = False
        self._core.close()
        with suppress(OSError):
            self._socket.close()

    def _wait(self) -> None:
        deadline_ms = self._core.next_deadline_ms()
        if not self.is_open or deadline_ms is None:
            raise NoAnswer(f"nothing was asked of {self.address}, or the connection is closed")
        now_ms = _now_ms()
        try:
            self._socket.settimeout(max(1, deadline_ms - now_ms) / 1000)
            size = self._socket.recv_into(self._core.space())
        except TimeoutError as error:
            raise self._ended(f"{self.address} did not answer in time") from error
        except OSError as error:
            raise self._ended(lost(error, str(self.address)).text) from error
        if not size:
            raise self._ended(f"{self.address} closed the connection")
        self._core.received(size, now_ms)

    def _ended(self, why: str) -> NoAnswer:
        self.close()
        return NoAnswer(why)

    def _dial(self) -> socket.socket:
        timeout_s = min(DIAL_TIMEOUT_MS, self._settings.request_timeout_ms) / 1000
        try:
            made = socket.create_connection((self.address.host, self.address.port), timeout_s)
            # A dial to a free local port may be given that very port to dial from.
            is_own_end = made.getsockname() == made.getpeername()
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (UnicodeError, OverflowError) as error:
            raise NoAnswer(f"{self.address} is no address: {error}") from error
        except OSError as error:
            raise NoAnswer(lost(error, str(self.address)).text) from error
        if is_own_end:
            made.close()
            raise NoAnswer(f"nobody listens at {self.address}")
        security = self._settings.security
        return made if security is None or security.tls is None else secured(made, security.tls, self.address)

    def _introduce(self) -> None:
        answer = self.exchange(call_of(ApiVersionsRequest(), ApiVersionsResponse, self._client_id))
        if answer.error_code is not ErrorCode.none:
            raise ClientFailure(f"{self.address} does not say what it speaks: {answer.error_code.name}")
        self._versions = {int(row.api_key): (row.min_version, row.max_version) for row in answer.api_keys}
        security = self._settings.security
        if security is not None and security.sasl is not None:
            log_in(self, security.sasl)

    def _check_version(self, request: type[Payload]) -> None:
        if not self.speaks(request):
            api_key, version = request.__api_key__, request.__version__
            oldest, newest = self._versions.get(api_key, (0, -1))
            spoken = f"versions {oldest} to {newest}" if newest >= 0 else "none"
            text = f"{self.address} does not speak {api_name(api_key)} version {version}, but {spoken}"
            raise ClientFailure(f"{text}: Penstock, and Apache Kafka from 3.1 on, do")


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
