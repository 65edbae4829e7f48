"""kazoo on an event loop: requests go to its thread, answers and events come back in order.

kazoo is made for callers that block. What is changed here, in its own terms (so its version is pinned):
- Requests wait in its queue while it is not connected, and would be carried out in the next session. Here they are
  refused: a request is sent in the session that its caller knows of, or never.
- It wakes its thread with a byte per request through a socket that fills up, and writes one at a time. Here one wake
  and one write serve all that wait.
- It knows only watches that fire once, one per node. Here watch events go to one callback, whichever kind they are.
- It keeps a session alive as long as its own thread runs. Here an event loop that stands still, as on a disk that
  hangs, loses its session: others can lead then.
- A server that stands still takes it two thirds of the session to notice, and then it may ask the same one again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, ConnectionLoss, KazooException
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Watch, int_int_struct, int_struct
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.interface import SessionState
from penstock.coordination.pulse import Pulse
from penstock.units import MIB

logger = logging.getLogger(__name__)
# A line for each attempt while ZooKeeper is away would be all that a log holds: changes of state are logged here.
_kazoo_logger = logger.getChild("kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# Far more than a reply of ours; what claims more is not ZooKeeper.
_MAX_REPLY_BYTES = 64 * MIB
# Written together. Between two writes it reads, so that replies do not pile up in the server.
_REQUESTS_PER_WRITE = 256
# Of the session's length. ZooKeeper ends one up to a tick late, and half a tick more if its server is not the leader:
# with as short ticks as sessions of seconds need, it is over then when it should be.
_ASKED_FOR = 11 / 12
# Of the silence after which kazoo gives a server up, two thirds of the session: time enough to find another.
_PATIENCE = 0.75
# Between two rounds over all servers, in seconds.
_FIRST_RETRY, _LAST_RETRY = 0.05, 1.0
# A server that does not answer must not hold up a stop; the session then ends by its time-out.
_STOP_SECONDS = 3.0
# Between two looks whether somebody stops it, while the event loop stands still.
_LOOK_SECONDS = 1.0

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
# After these kazoo's thread is gone.
_END = {
    KeeperState.AUTH_FAILED: "ZooKeeper refused the credentials: check zookeeper.auth, then restart",
    KeeperState.CLOSED: "the connection to ZooKeeper ended for a reason that the log tells: restart",
}


class StateChange(NamedTuple):
    state: SessionState
    # None when there is none any more.
    session_id: int | None
    generation: int


class _Inbox:
    """Calls that kazoo's thread leaves for the event loop, which is woken once for all that are there.

    Behind a call that is a `turn` the loop first runs what that call has begun: those who hear of a change of state
    hear it before the next one is made.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...], bool]] = deque()
        self._woken = False

    def put(self, call: Callable[..., None], *arguments: Any, turn: bool = False) -> None:
        self._calls.append((call, arguments, turn))
        if not self._woken:
            self._woken = True
            # A loop that is closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        # First: what is put from here on, and not seen below, wakes again.
        self._woken = False
        while self._calls:
            call, arguments, turn = self._calls.popleft()
            call(*arguments)
            if turn:
                self._woken = True
                self._loop.call_soon(self._run)
                return


class _Answer:
    """What kazoo takes for its result object. `body` is the request, packed where its caller hears of mistakes."""

    __slots__ = ("_future", "_inbox", "body")

    def __init__(self, inbox: _Inbox, future: asyncio.Future[Any], body: bytes) -> None:
        self._inbox = inbox
        self._future = future
        self.body = body

    def set(self, value: Any = None) -> None:
        self._inbox.put(_settle, self._future, value, None)

    def set_exception(self, error: Exception) -> None:
        # What could not be understood is as good as never answered.
        known = error if isinstance(error, KazooException) else ConnectionLoss(str(error))
        self._inbox.put(_settle, self._future, None, known)


def _packed(request: Any) -> bytes:
    return bytes(int_struct.pack(request.type) + request.serialize())


def _settle(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Without the threads that run callbacks, which nobody registers."""

    def __init__(self, servers: int) -> None:
        super().__init__()
        self._servers = servers

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def select(self, readers: list[Any], writers: list[Any], _: list[Any], timeout: float | None = None) -> Any:
        """poll needs one system call where kazoo's own makes and drops an epoll set each time.

        Of what TLS has decrypted already the system knows nothing: kazoo's own would wait for more.
        """
        if decrypted := [reader for reader in readers if isinstance(reader, ssl.SSLSocket) and reader.pending()]:
            return decrypted, [], []
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else max(0, timeout) * 1000)}
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )

    def create_connection(self, *arguments: Any, timeout: float, **options: Any) -> Any:
        """kazoo gives one dial the whole session; here there is time for all servers, twice."""
        return super().create_connection(*arguments, timeout=timeout / (2 * self._servers), **options)

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        for each in pair:
            each.setblocking(False)
        return pair


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """One server at a time, in kazoo's thread."""

    _last_dialled: Any = None
    _xid: int

    def _expand_client_hosts(self) -> list[Any]:
        found: list[Any] = super()._expand_client_hosts()
        if not found:
            self.client.trouble = "no server's name could be resolved"
        # The one that was just lost comes last.
        return sorted(found, key=lambda server: server == self._last_dialled)

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        self._last_dialled = (host, hostip, port)
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except (KazooException, RuntimeError, LookupError, ValueError, struct.error) as error:
            # Something else than ZooKeeper answers there, or it is broken: no reason to give up all servers.
            self.client.trouble = f"{host}:{port} does not speak as ZooKeeper does: {error}"
            self.client._session_callback(KeeperState.CONNECTING)
            return None

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        try:
            read_timeout, connect_timeout = super()._connect(host, hostip, port)
        except (KazooException, KazooTimeoutError) as error:
            self.client.trouble = f"{host}:{port}: {error or type(error).__name__}"
            raise
        return read_timeout * _PATIENCE, connect_timeout

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= _MAX_REPLY_BYTES:
            raise ConnectionDropped(f"a reply of {length} bytes, which ZooKeeper never sends")
        data: bytes = super()._read(length, timeout)
        return data

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        with contextlib.suppress(BlockingIOError):
            self._read_sock.recv(4096)
        client = self.client
        packets = bytearray()
        for _ in range(min(len(client._queue), _REQUESTS_PER_WRITE)):
            request, answer = client._queue.popleft()
            self._xid = (self._xid % 0x7FFFFFFF) + 1
            # Only the end of a session asks for no answer.
            body = _packed(request) if answer is None else answer.body
            packets += int_int_struct.pack(int_struct.size + len(body), self._xid) + body
            client._pending.append((request, answer, self._xid))
        if client._queue:
            client.wake()
        self._write(packets, connect_timeout)

    def _send_ping(self, connect_timeout: float) -> None:
        """About four in the time of a session. Without them the server ends it; so does nothing that is done here."""
        client = self.client
        if not client.pulse.look():
            logger.error("zookeeper.event.loop.stands.still", extra={"do": "see what it waits for, such as a disk"})
            while not client.pulse.wait(_LOOK_SECONDS) and not client._stopped.is_set():
                pass
        super()._send_ping(connect_timeout)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self.client.on_event(event.path)


class _Client(KazooClient):  # type: ignore[misc]
    """`gate` is held to queue a request and to change the state, so that no request slips from one to the next."""

    def __init__(self, settings: CoordinationSettings, inbox: _Inbox, **calls: Any) -> None:
        servers = settings.coordination.servers
        handler = _Handler(len(servers))
        retry = KazooRetry(-1, _FIRST_RETRY, max_delay=_LAST_RETRY, sleep_func=handler.sleep_func)
        self.gate = threading.RLock()
        self.generation = 0
        self.trouble = ""
        self.inbox = inbox
        self.pulse = Pulse(inbox.put)
        self._calls = calls
        super().__init__(
            hosts=",".join(map(str, servers)),
            timeout=settings.session_timeout_ms / 1000 * _ASKED_FOR,
            handler=handler,
            connection_retry=retry,
            logger=_kazoo_logger,
            auth_data=[("digest", settings.zookeeper_auth.text)] if settings.zookeeper_auth else None,
            use_ssl=settings.zookeeper_tls,
            ca=settings.zookeeper_tls_ca or None,
            certfile=settings.zookeeper_tls_cert or None,
            keyfile=settings.zookeeper_tls_key or None,
            check_hostname=settings.zookeeper_tls_verify_hostname,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger)

    def _session_callback(self, state: Any) -> None:
        with self.gate:
            before = self.state
            super()._session_callback(state)
            if self.state == before:
                return
            self.generation += 1
            change = StateChange(_STATES[self.state], self._session_id, self.generation)
            self.inbox.put(self._calls["on_state"], change, _END.get(state), turn=True)

    def on_event(self, path: str) -> None:
        self.inbox.put(self._calls["on_event"], path)

    def wake(self) -> None:
        # Full means that its thread has been woken often enough.
        with contextlib.suppress(BlockingIOError):
            self._connection._write_sock.send(b"\0")


class ZooKeeperConnection:
    """For one event loop. `on_state` and `on_event` (the path of a node that a watch saw change) are called there."""

    def __init__(
        self,
        settings: CoordinationSettings,
        on_state: Callable[[StateChange], None],
        on_event: Callable[[str], None],
    ) -> None:
        self.failure: str | None = None
        self._loop = asyncio.get_running_loop()
        self._inbox = _Inbox(self._loop)
        self._on_state = on_state
        self._seen_generation = 0
        self._decided = asyncio.Event()
        self._stopping = False
        self._client = _Client(settings, self._inbox, on_state=self._changed, on_event=on_event)

    @property
    def trouble(self) -> str:
        """Why the newest attempt to connect failed."""
        return str(self._client.trouble)

    async def start(self) -> None:
        """Returns when it is connected, and then connects again by itself until it is stopped; or with a `failure`."""
        self._client.start_async()
        await self._decided.wait()

    def send(self, request: Any) -> asyncio.Future[Any]:
        """The answer; fails with KazooException, at once while there is no connection."""
        future = self._loop.create_future()
        answer = _Answer(self._inbox, future, _packed(request))
        with self._client.gate:
            if self._client.connected and self._client.generation == self._seen_generation:
                self._client._queue.append((request, answer))
                self._client.wake()
                return future
        future.set_exception(ConnectionLoss("not connected"))
        return future

    async def stop(self) -> None:
        """Ends the session, if its server answers in time. Once started only."""
        self._stopping = True
        stopped = asyncio.Event()
        # No pool's: those are waited for when the loop ends, however long it takes.
        threading.Thread(target=self._stop, args=(stopped,), daemon=True, name="zookeeper-stop").start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await stopped.wait()

    def _stop(self, stopped: asyncio.Event) -> None:
        with contextlib.suppress(OSError, KazooException):
            self._client.stop()
            self._client.close()
        self._inbox.put(stopped.set)

    def _changed(self, change: StateChange, end: str | None) -> None:
        self._seen_generation = change.generation
        if self._stopping:
            return
        level = logging.INFO if change.state is SessionState.CONNECTED else logging.WARNING
        facts = {"state": change.state.value, "session": change.session_id, "why": self.trouble}
        logger.log(level, "zookeeper.session", extra=facts)
        self._client.trouble = ""
        if end is not None:
            self.failure = end
        if change.state is SessionState.CONNECTED or end is not None:
            self._decided.set()
        self._on_state(change)
