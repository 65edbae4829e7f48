"""From a frame to a reply: decoding, version checks, throttling, errors and measuring happen here, once for all."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.broker.api import Api, Buffers, Caller, CloseConnection, Handler, OwnCodec
from penstock.broker.failed import failed_response
from penstock.broker.pressure import Pressure
from penstock.broker.receive_buffer import FREE_BYTES
from penstock.broker.refusals import note_errors
from penstock.broker.replies import MOST_ROWS_WAITING, MOST_WAITING
from penstock.later import Later
from penstock.rpc.core.call import BROKER_CLIENT_ID
from penstock.telemetry.broker import BrokerMetrics
from penstock.telemetry.histogram import Histogram
from penstock.telemetry.usage import NO_TOPIC, Usage, tenant_of
from penstock.wire.framing import Malformed, RequestHeader, read_request_header
from penstock.wire.produce_request import OneBatch
from penstock.wire.schemas import API_VERSIONS, api_name
from penstock.wire.versions import decode, encode

logger = logging.getLogger(__name__)


# The reply; how many may wait together with it, 0 if no other request may start before it is there; how long the client
# has to be kept waiting, in ms.
Outcome = tuple[Buffers | Later[Buffers], int, int]


class Entry:
    """One API as dispatch needs it."""

    __slots__ = ("api", "codec", "handler", "latency", "name", "newest", "oldest", "usage")

    def __init__(self, handler: Handler, latency: Histogram, usage: Usage) -> None:
        self.handler = handler
        self.api: Api = handler.api
        self.oldest, self.newest = handler.api.versions
        self.codec = handler if isinstance(handler, OwnCodec) else None
        self.latency = latency
        self.name = api_name(handler.api.key)
        self.usage = None if self.api.private or self.api.counts_topics else usage.of_api(self.name)


class Dispatch:
    def __init__(self, handlers: Iterable[Handler], metrics: BrokerMetrics, usage: Usage, pressure: Pressure) -> None:
        self._metrics = metrics
        self._pressure = pressure
        self._entries = {
            handler.api.key: Entry(handler, metrics.latency_of(api_name(handler.api.key)), usage)
            for handler in handlers
        }

    def start(self, frame: memoryview, caller: Caller) -> Outcome:
        """Raises Malformed or CloseConnection when nothing but hanging up is right."""
        header = read_request_header(frame)
        api_key, api_version, _, client_id, _ = header
        if client_id != caller.client_id:
            caller.client_id, caller.tenant = client_id, tenant_of(client_id)
        entry = self._entries.get(api_key)
        if entry is None:
            raise CloseConnection(f"{api_name(api_key)} is not served here: ask with ApiVersions what is")
        if not entry.oldest <= api_version <= entry.newest:
            return self._unsupported(entry, header, caller), MOST_WAITING, 0
        if entry.usage is not None and not caller.is_forwarded and client_id != BROKER_CLIENT_ID:
            entry.usage.count(caller.tenant, NO_TOPIC, 0, 0, 1)
        started = perf_counter()
        throttle_ms = self._throttle_ms() if len(frame) > FREE_BYTES else 0
        try:
            request = self._read(entry, header, frame)
            most = MOST_ROWS_WAITING if isinstance(request, OneBatch) else MOST_WAITING
            answer = entry.handler.start(request, caller)
            if not isinstance(answer, Later):
                return self._pack(entry, header, started, throttle_ms, answer), most, throttle_ms
        except (Malformed, CloseConnection):
            raise
        except Exception as error:
            most = MOST_WAITING
            answer = Later[Any]()
            answer.fail(error)
        reply: Later[Buffers] = Later()
        self._metrics.requests_in_flight += 1
        answer.when_done(lambda done: self._finish(entry, header, started, throttle_ms, done, reply))
        return reply, most if entry.api.pipelined else 0, throttle_ms

    def _throttle_ms(self) -> int:
        """For large requests only: small ones take nothing from the memory that is short, and a heartbeat that waits

        helps nobody.
        """
        throttle_ms = self._pressure.throttle_ms()
        if throttle_ms:
            self._metrics.throttled_requests += 1
            self._metrics.throttle_ms += throttle_ms
        return throttle_ms

    def _read(self, entry: Entry, header: RequestHeader, frame: memoryview) -> Any:
        if entry.codec is not None:
            return entry.codec.read(frame, header.body_start, header.api_version)
        return decode(header.api_key, header.api_version, frame[header.body_start :])

    def _finish(
        self,
        entry: Entry,
        header: RequestHeader,
        started: float,
        throttle_ms: int,
        answer: Later[Any],
        reply: Later[Buffers],
    ) -> None:
        self._metrics.requests_in_flight -= 1
        try:
            reply.complete(self._pack(entry, header, started, throttle_ms, answer.result()))
        except CloseConnection as close:
            reply.fail(close)
        except Exception:
            self._metrics.unexpected_errors += 1
            logger.exception("request.failed", extra={"api": entry.name, "version": header.api_version})
            failed = failed_response(entry.api.key)
            if failed is None:
                reply.fail(CloseConnection(f"{entry.name} failed unexpectedly; the log has the traceback"))
            else:
                reply.complete([encode(failed, entry.api.key, header.api_version, header.correlation_id, 0)])

    def _pack(self, entry: Entry, header: RequestHeader, started: float, throttle_ms: int, response: Any) -> Buffers:
        entry.latency.observe(perf_counter() - started)
        note_errors(response, self._metrics.errors)
        if entry.codec is not None:
            return entry.codec.pack(response, header.api_version, header.correlation_id, throttle_ms)
        return [encode(response, entry.api.key, header.api_version, header.correlation_id, throttle_ms)]

    def _unsupported(self, entry: Entry, header: RequestHeader, caller: Caller) -> Buffers:
        """A client that asks with an ApiVersions too new gets an answer that every client can read (KIP-511)."""
        if header.api_key != API_VERSIONS:
            raise CloseConnection(
                f"{entry.name} version {header.api_version} is not served, {entry.oldest} to {entry.newest} are"
            )
        known: Any = entry.handler.start(None, caller)
        answer = replace(known, error_code=ErrorCode.unsupported_version)
        note_errors(answer, self._metrics.errors)
        return [encode(answer, API_VERSIONS, 0, header.correlation_id, 0)]
