"""Settings of consumer groups. Names and meanings are Kafka's; config/consumer_groups.py has those of KIP-848."""

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import DAY_MS, KIB, MINUTE_MS, SECOND_MS


@section(scope=Scope.NODE)
class GroupSettings(Section):
    min_session_timeout_ms: int = setting(
        6 * SECOND_MS,
        name="group.min.session.timeout.ms",
        at_least=1,
        doc="The shortest session.timeout.ms that a member may ask for. Shorter ones find dead members sooner and cost "
        "more heartbeats.",
    )
    max_session_timeout_ms: int = setting(
        30 * MINUTE_MS,
        name="group.max.session.timeout.ms",
        at_least=1,
        doc="The longest session.timeout.ms that a member may ask for: how long a dead member's partitions may wait.",
    )
    initial_rebalance_delay_ms: int = setting(
        3 * SECOND_MS,
        name="group.initial.rebalance.delay.ms",
        at_least=0,
        doc="How long the first rebalance of an empty group waits for more members. Kafka's default: it spares a "
        "group whose members start together one rebalance for each. Set 0 where every start counts, as in tests.",
    )
    max_size: int = setting(
        2**31 - 1,
        name="group.max.size",
        at_least=1,
        doc="How many members a group may have; further ones are told GROUP_MAX_SIZE_REACHED.",
    )
    offsets_retention_minutes: int = setting(
        14 * DAY_MS // MINUTE_MS,
        name="offsets.retention.minutes",
        at_least=1,
        doc="How long committed offsets outlive the use of their group; as long as the data by default. Counted from "
        "when the group lost its last member, or from the commit where there are no members.",
    )
    offsets_retention_check_interval_ms: int = setting(
        10 * MINUTE_MS,
        name="offsets.retention.check.interval.ms",
        at_least=1,
        doc="How often expired offsets are looked for.",
    )
    offset_metadata_max_bytes: int = setting(
        4 * KIB,
        name="offset.metadata.max.bytes",
        at_least=0,
        doc="The longest text that a consumer may attach to a committed offset.",
    )
    offsets_topic_num_partitions: int = setting(
        50,
        name="offsets.topic.num.partitions",
        at_least=1,
        doc="Partitions of __consumer_offsets when it is created. Never changed afterwards: it decides which broker "
        "coordinates a group.",
    )
