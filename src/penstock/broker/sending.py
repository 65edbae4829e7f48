"""Replies whose records are still in their file: the kernel takes them from the page cache, and nobody copies them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence

from penstock.broker.api import Part
from penstock.wire.stored_batches import StoredBatches

# With these TCP spreads what it sends over time. The kernel takes 64 KiB at a time from a file, and to set a timer for
# each costs more than to copy them.
_PACING = (b"bbr",)
_NAME_BYTES = 16

logger = logging.getLogger(__name__)


def takes_files(transport: asyncio.BaseTransport) -> bool:
    """Whether that is worth it on this connection."""
    try:
        name = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES)
    except (AttributeError, OSError):
        # No TCP, or gone already.
        return False
    return not name.startswith(_PACING)


def do_not_pace(listener: socket.socket) -> None:
    """Within one host there is no line to spread packets over. Connections have it from where they were accepted."""
    try:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    except OSError as error:
        logger.info("listener.pacing.kept", extra={"why": str(error)})


def send_parts(transport: asyncio.Transport, parts: Sequence[Part]) -> None:
    """Behind all that the transport was given before. What the socket does not take at once is read for it."""
    try:
        place, sent = 0, 0
        if not all(part.is_there() for part in parts if isinstance(part, StoredBatches)):
            raise OSError("the log was truncated")
        if not transport.get_write_buffer_size() and not transport.is_closing():
            place, sent = _send(transport.get_extra_info("socket").fileno(), parts)
        rest = [_behind(part, 0) for part in parts[place + 1 :]]
        if place < len(parts):
            transport.writelines([_behind(parts[place], sent), *rest])
    except OSError as error:
        # The length of the reply is out already: the client can only ask again.
        logger.warning("reply.broken_off", extra={"why": f"{error}. The client connects and asks again"})
        transport.abort()


def _send(descriptor: int, parts: Sequence[Part]) -> tuple[int, int]:
    """How many parts the socket took, and how many bytes of the next one."""
    # Borrowed, to be able to say that more comes; of which family it is does not matter for that.
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    place, sent = 0, 0
    try:
        for place, part in enumerate(parts):
            sent, size = 0, len(part)
            more = socket.MSG_MORE if place + 1 < len(parts) else 0
            while sent < size:
                if isinstance(part, StoredBatches):
                    taken = part.send(descriptor, sent)
                else:
                    taken = connection.send(memoryview(part)[sent:], more)
                if not taken:
                    raise OSError("the file ends before the records do")
                sent += taken
    except (BlockingIOError, ConnectionError):
        # The transport meets it, too.
        return place, sent
    finally:
        connection.detach()
    return len(parts), 0


def _behind(part: Part, sent: int) -> bytes | memoryview:
    return part.behind(sent) if isinstance(part, StoredBatches) else memoryview(part)[sent:]
