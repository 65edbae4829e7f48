"""Events of usage that a stop could not deliver, on this node's own disk until the next life has."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import msgspec

from penstock.decoding import decoded
from penstock.disk.interface import Disk, read_whole, replace_atomically
from penstock.telemetry.usage_events import Event
from penstock.units import MIB

logger = logging.getLogger(__name__)

_NAME = "usage-kept"
# Of many lives in which nothing could be delivered; far more than a stop leaves behind.
MAX_BYTES = 64 * MIB
_EVENTS = msgspec.msgpack.Decoder(list[Event])


class KeptUsage:
    """Everything here blocks."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._path = os.path.join(data_dir, _NAME)

    def read(self) -> list[Event]:
        """What there is; it stays until it is forgotten."""
        try:
            return decoded(_EVENTS, read_whole(self._disk, self._path)) if self._disk.exists(self._path) else []
        except (OSError, ValueError) as error:
            logger.error("usage.lost", extra={"why": f"{self._path} cannot be read: {error}"})
            return []

    def keep(self, events: Sequence[Event]) -> str | None:
        """Instead of what was kept before. Why that could not be, if so."""
        data = msgspec.msgpack.encode(list(events))
        if len(data) > MAX_BYTES:
            return f"{len(data)} bytes are more than the {MAX_BYTES} that are kept"
        try:
            replace_atomically(self._disk, self._path, data)
        except OSError as error:
            return str(error)
        return None

    def forget(self) -> None:
        """It is delivered. If it comes back after a power cut it is delivered again, and its keys tell."""
        try:
            self._disk.remove(self._path)
        except OSError as error:
            logger.warning("usage.kept.not.removed", extra={"why": str(error)})
