"""A broker whose every answer the test decides: for what a real one does rarely, or never."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.wire.appending import finish_response, start_response
from penstock.wire.bounds import ElementBudget
from penstock.wire.fetch_response import pack_fetch_response
from penstock.wire.fetched import FetchResponse, PartitionFetched, TopicFetched
from penstock.wire.framing import read_request_header
from penstock.wire.reading import reader_for
from penstock.wire.schemas import API_VERSIONS, FETCH, request_class, response_class, response_header_version
from penstock.wire.writing import writer_for

METADATA, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, SASL_HANDSHAKE, SASL_AUTHENTICATE = 3, 2, 23, 17, 36
VERSIONS = {
    METADATA: 12,
    LIST_OFFSETS: 7,
    FETCH: 13,
    OFFSET_FOR_LEADER_EPOCH: 4,
    SASL_HANDSHAKE: 1,
    SASL_AUTHENTICATE: 2,
}
TOPIC_ID = UUID(int=7)
NO_TIME = i32Timedelta.parse(timedelta(0))

Answer = Callable[[Any], Any]


class FakeBroker:
    """`answers`: by API key, from the request in the version of `versions` to the response in the same."""

    def __init__(self, answers: Mapping[int, Answer], versions: Mapping[int, int] = VERSIONS) -> None:
        self._answers = answers
        self._versions = versions
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.asked: list[int] = []

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            # Whoever waits for its next request wakes up.
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            thread = threading.Thread(target=self._serve, args=(peer,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer, peer.makefile("rb") as stream:
                while prefix := stream.read(4):
                    peer.sendall(self._answer(stream.read(struct.unpack(">i", prefix)[0])))
        except (OSError, ValueError):
            return

    def _answer(self, frame: bytes) -> bytes:
        key, version, number, _, body_start = read_request_header(memoryview(frame))
        self.asked.append(key)
        if key == API_VERSIONS:
            rows = [
                ApiVersion(api_key=i16(key), min_version=i16(at), max_version=i16(at))
                for key, at in self._versions.items()
            ]
            answer: Any = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=tuple(rows))
        else:
            request = reader_for(request_class(key, version), request_class(key, version))
            answer = self._answers[key](request(frame, body_start, ElementBudget())[0])
        if key == FETCH:
            return b"".join(bytes(part) for part in pack_fetch_response(answer, version, number, 0))
        out = start_response(response_header_version(key, version), number)
        layout = response_class(key, version)
        writer_for(layout, layout)(out, answer)
        finish_response(out, len(out))
        return bytes(out)


def metadata(ports: Sequence[int], leader: int, leader_epoch: int = 0, topic_id: UUID = TOPIC_ID) -> MetadataResponse:
    """Brokers at these ports, of which one leads the only partition of `orders`."""
    row = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(leader),
        leader_epoch=i32(leader_epoch),
        replica_nodes=(),
        isr_nodes=(),
        offline_replicas=(),
    )
    topic = MetadataResponseTopic(
        error_code=ErrorCode.none, name=TopicName("orders"), topic_id=topic_id, is_internal=False, partitions=(row,)
    )
    brokers = [
        MetadataResponseBroker(node_id=BrokerId(at), host="127.0.0.1", port=i32(port), rack=None)
        for at, port in enumerate(ports)
    ]
    return MetadataResponse(
        throttle_time=NO_TIME,
        brokers=tuple(brokers),
        cluster_id=None,
        controller_id=BrokerId(0),
        topics=(topic,),
    )


def fetched(*records: bytes | bytearray, end: int = 0, error: ErrorCode = ErrorCode.none) -> FetchResponse:
    """For the only partition; `end` is its high watermark."""
    row = PartitionFetched(0, error, end, end, 0, records=records)
    return FetchResponse([TopicFetched("", TOPIC_ID, [row])])
