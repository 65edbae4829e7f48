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
    if transport.is_closing():
        return
    stored = [part for part in parts if isinstance(part, StoredBatches)]
    is_whole = False
    try:
        if all(part.is_there() for part in stored):
            place, sent = 0, 0
            if not transport.get_write_buffer_size():
                place, sent = _send(transport.get_extra_info("socket").fileno(), parts)
            if place < len(parts):
                rest = [_behind(part, 0) for part in parts[place + 1 :]]
                transport.writelines([_behind(parts[place], sent), *rest])
            is_whole = True
        else:
            _tell("what was to be sent from a file has changed, or must be read from the disk")
    except OSError as error:
        # The client can only ask again, and then it is read and checked.
        for part in stored:
            part.doubt()
        _tell(str(error))
    finally:
        if not is_whole:
            # Some of it may be out already, and a connection must not go on in the middle of a reply.
            transport.abort()


def _tell(why: str) -> None:
    logger.warning("reply.broken_off", extra={"why": f"{why}. The client connects and asks again"})


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
                    return place, sent
                sent += taken
    except OSError:
        # The socket is full, or whoever does it the other way meets the same.
        return place, sent
    finally:
        connection.detach()
    return len(parts), 0


def _behind(part: Part, sent: int) -> bytes | memoryview:
    return part.behind(sent) if isinstance(part, StoredBatches) else memoryview(part)[sent:]
