"""A power cut in the middle of whatever the process is doing."""

from __future__ import annotations

from tests.disk.power import PowerCutDisk


class PowerOff(BaseException):
    """The process is gone at this moment; nothing in it may handle that."""


class CrashingDisk(PowerCutDisk):
    """Every operation from the chosen one on raises `PowerOff`, until `cut_power` settles what is left."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        super().__init__(capacity_bytes)
        self.operations_left: int | None = None

    def trip(self, operation: str, path: str) -> None:
        if self.operations_left is not None:
            if self.operations_left == 0:
                raise PowerOff(f"{operation} {path}")
            self.operations_left -= 1
        super().trip(operation, path)

    def forgive(self) -> None:
        """Faults that were ordered and did not come yet will not come."""
        self._faults = []
