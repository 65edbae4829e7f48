"""Settings of how a topic's partitions are replicated."""

from penstock.config.setting import Scope, Section, section, setting
from penstock.config.throttled_replicas import ThrottledReplicas


@section(scope=Scope.TOPIC)
class TopicReplicationSettings(Section):
    min_insync_replicas: int = setting(
        1,
        name="min.insync.replicas",
        at_least=1,
        at_most=2**15 - 1,
        dynamic=True,
        doc="With acks=all a record counts when so many replicas have it; with fewer in sync, such writes are refused. "
        "2 with a replication factor of 3 survives the loss of any one broker without losing or refusing anything.",
    )
    unclean_leader_election_enable: bool = setting(
        False,
        name="unclean.leader.election.enable",
        dynamic=True,
        doc="Whether a replica that may lack records leads when no other is left. true trades records for service.",
    )
    leader_replication_throttled_replicas: ThrottledReplicas = setting(
        ThrottledReplicas.parse(""),
        name="leader.replication.throttled.replicas",
        dynamic=True,
        doc="To which replicas, as PARTITION:BROKER, leaders give no faster than leader.replication.throttled.rate "
        "while they are not in sync. Those that are being moved need not be named.",
    )
    follower_replication_throttled_replicas: ThrottledReplicas = setting(
        ThrottledReplicas.parse(""),
        name="follower.replication.throttled.replicas",
        dynamic=True,
        doc="Which replicas, as PARTITION:BROKER, fetch no faster than their broker's "
        "follower.replication.throttled.rate while they are not in sync. Those that are being moved need not be named.",
    )
