"""What the operator wants of KIP-848 groups; plain values, from config/consumer_groups.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.groups.core.assignor_range import assign_range
from penstock.groups.core.assignor_uniform import assign_uniform
from penstock.groups.core.assignors import Assignor
from penstock.units import SECOND_MS

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


class MigrationPolicy(Enum):
    """Which way a group with members may change its protocol: by a KIP-848 member joining classic ones (upgrade), by

    the last KIP-848 member leaving them (downgrade).
    """

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    session_timeout_ms: int = 45 * SECOND_MS
    heartbeat_interval_ms: int = 5 * SECOND_MS
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """Those that members may ask for; the first is for groups that ask for none."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
