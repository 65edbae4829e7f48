"""Settings of usage metering."""

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import HOUR_MS, SECOND_MS


@section(scope=Scope.NODE)
class UsageSettings(Section):
    emit_interval_ms: int = setting(
        10 * SECOND_MS,
        name="usage.emit.interval.ms",
        at_least=0,
        at_most=HOUR_MS,
        doc="How often this node writes to __usage who has used how much. What was counted since the last time is lost "
        "when the node is killed. 0: nothing is written.",
    )
    max_series: int = setting(
        10_000,
        name="usage.max.series",
        at_least=1,
        at_most=100_000,
        doc="How many combinations of tenant, topic and API this node tells apart in one interval. What is beyond them "
        "is counted as the tenant other.",
    )
