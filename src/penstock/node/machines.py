"""The state machines with the limits that the settings give them."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.api import next_number
from penstock.config.consumer_groups import ConsumerGroupSettings
from penstock.config.groups import GroupSettings
from penstock.config.settings import Settings
from penstock.config.transactions import TransactionSettings
from penstock.groups.core.consumer_limits import ConsumerLimits, MigrationPolicy
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.machine import TransactionsMachine
from penstock.units import MINUTE_MS


def machine_factory(settings: Settings) -> Callable[[], GroupsMachine]:
    limits, consumer_limits = _limits(settings.groups), _consumer_limits(settings.consumer_groups)
    return lambda: GroupsMachine(limits, consumer_limits, began=next_number())


def transactions_factory(settings: TransactionSettings) -> Callable[[], TransactionsMachine]:
    limits = TransactionLimits(
        max_timeout_ms=settings.max_timeout_ms,
        id_expiration_ms=settings.id_expiration_ms,
        expiry_interval_ms=settings.id_expiry_interval_ms,
    )
    return lambda: TransactionsMachine(limits, began=next_number())


def _limits(groups: GroupSettings) -> GroupLimits:
    return GroupLimits(
        min_session_timeout_ms=groups.min_session_timeout_ms,
        max_session_timeout_ms=groups.max_session_timeout_ms,
        initial_rebalance_delay_ms=groups.initial_rebalance_delay_ms,
        max_size=groups.max_size,
        offsets_retention_ms=groups.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=groups.offsets_retention_check_interval_ms,
        offset_metadata_max_bytes=groups.offset_metadata_max_bytes,
    )


def _consumer_limits(groups: ConsumerGroupSettings) -> ConsumerLimits:
    return ConsumerLimits(
        session_timeout_ms=groups.session_timeout_ms,
        heartbeat_interval_ms=groups.heartbeat_interval_ms,
        max_size=groups.max_size,
        assignors=tuple(name.strip() for name in groups.assignors.split(",")),
        migration_policy=MigrationPolicy(groups.migration_policy),
    )
