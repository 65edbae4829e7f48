"""Settings of groups that use the consumer protocol of KIP-848 (`group.protocol=consumer`)."""

from __future__ import annotations

from typing import ClassVar, Self

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import SECOND_MS


class MigrationPolicyName(str):
    """One word, unlike the settings that take several separated by commas."""

    wanted: ClassVar[str] = "one of disabled, upgrade, downgrade, bidirectional"

    @classmethod
    def parse(cls, text: str) -> Self:
        if text not in ("disabled", "upgrade", "downgrade", "bidirectional"):
            raise ValueError(text)
        return cls(text)


@section(scope=Scope.NODE)
class ConsumerGroupSettings(Section):
    session_timeout_ms: int = setting(
        45 * SECOND_MS,
        name="group.consumer.session.timeout.ms",
        at_least=1,
        doc="A member that sends no heartbeat for this long loses its partitions. Raise it when consumers pause longer "
        "than this; lower it to notice a crash sooner.",
    )
    heartbeat_interval_ms: int = setting(
        5 * SECOND_MS,
        name="group.consumer.heartbeat.interval.ms",
        at_least=1,
        doc="How often members are told to send a heartbeat. A rebalance takes a few of these; keep it well below the "
        "session timeout.",
    )
    max_size: int = setting(
        2**31 - 1,
        name="group.consumer.max.size",
        at_least=1,
        doc="The largest number of members in one group.",
    )
    assignors: str = setting(
        "uniform,range",
        name="group.consumer.assignors",
        one_of=("uniform", "range"),
        doc="The assignors that members may ask for; the first is for groups that ask for none. uniform spreads "
        "partitions evenly and moves few; range gives a member the same partition numbers of several topics.",
    )
    migration_policy: MigrationPolicyName = setting(
        MigrationPolicyName("bidirectional"),
        name="group.consumer.migration.policy",
        doc="Whether a group may change its protocol while it has members: upgrade when a consumer-protocol member "
        "joins classic ones, downgrade when the last of them leaves, both (bidirectional), or never (disabled).",
    )
