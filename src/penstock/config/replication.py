"""Settings of replication: when a follower counts as in sync, and how it fetches."""

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import MIB, SECOND_MS

# What Kafka takes for no limit.
UNLIMITED_RATE = 2**63 - 1


@section(scope=Scope.NODE)
class ReplicationSettings(Section):
    replica_lag_time_max_ms: int = setting(
        30 * SECOND_MS,
        name="replica.lag.time.max.ms",
        at_least=1,
        doc="A follower that has not had all of its leader's log for this long leaves the ISR. Less lets acks=all go "
        "on sooner without a follower that hangs; more keeps one that is only slow.",
    )
    replica_lag_max_messages: int = setting(
        -1,
        name="replica.lag.max.messages",
        at_least=-1,
        doc="A follower that is this many records behind leaves the ISR, however short the time. "
        "-1: time alone counts.",
    )
    replica_fetch_wait_max_ms: int = setting(
        500,
        name="replica.fetch.wait.max.ms",
        at_least=1,
        doc="How long a leader holds a follower's fetch when there is nothing new. Keep it well below "
        "replica.lag.time.max.ms.",
    )
    leader_replication_throttled_rate: int = setting(
        UNLIMITED_RATE,
        name="leader.replication.throttled.rate",
        at_least=1024,
        at_most=UNLIMITED_RATE,
        dynamic=True,
        doc="How many bytes a second this broker gives away of partitions that are being moved to others, and of "
        "replicas that leader.replication.throttled.replicas names while they are not in sync.",
    )
    follower_replication_throttled_rate: int = setting(
        UNLIMITED_RATE,
        name="follower.replication.throttled.rate",
        at_least=1024,
        at_most=UNLIMITED_RATE,
        dynamic=True,
        doc="How many bytes a second this broker fetches of partitions that are being moved to it, and of replicas "
        "that follower.replication.throttled.replicas names while they are not in sync, so that moves leave room for "
        "others. What it has as a replica already comes as fast as it can. `penstock cluster rebalance --throttle` "
        "sets a limit that ends with the move.",
    )
    replica_fetch_max_bytes: int = setting(
        MIB,
        name="replica.fetch.max.bytes",
        at_least=1024,
        doc="How much a follower asks for of one partition at a time. A larger batch comes all the same.",
    )
    replica_fetch_response_max_bytes: int = setting(
        10 * MIB,
        name="replica.fetch.response.max.bytes",
        at_least=1024,
        doc="How much a follower asks one leader for at a time, over all partitions.",
    )
