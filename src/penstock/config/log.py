"""Settings of one partition's log. Names and meanings are Kafka's where Kafka has the setting."""

from penstock.config.setting import Scope, Section, section, setting
from penstock.units import DAY_MS, GIB, HOUR_MS, MIB

# Kafka's `long`: what clients can show, and what a record batch can hold.
_INT64_MAX = 2**63 - 1


@section(scope=Scope.TOPIC)
class LogSettings(Section):
    segment_bytes: int = setting(
        GIB,
        name="segment.bytes",
        at_least=1024,
        at_most=2**31 - 1,
        dynamic=True,
        doc="A segment file is closed at this size. Smaller segments let retention delete in smaller steps.",
    )
    segment_ms: int = setting(
        7 * DAY_MS,
        name="segment.ms",
        at_least=1,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="A segment is closed at this age even if it is small, so that retention and compaction can reach it.",
    )
    index_interval_bytes: int = setting(
        4096,
        name="index.interval.bytes",
        at_least=0,
        # So much is read, and held, beside what a reader gets.
        at_most=MIB,
        dynamic=True,
        doc="One index entry per so many bytes of log. Less makes seeks cheaper and the index larger.",
    )
    retention_ms: int = setting(
        14 * DAY_MS,
        name="retention.ms",
        at_least=-1,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="How long records stay; -1 for ever. Raise it when consumers may be away longer.",
    )
    retention_bytes: int = setting(
        -1,
        name="retention.bytes",
        at_least=-1,
        dynamic=True,
        doc="How much of a partition stays; the oldest segments beyond it are deleted. -1: no limit.",
    )
    cleanup_policy: str = setting(
        "delete",
        name="cleanup.policy",
        one_of=("delete", "compact"),
        dynamic=True,
        doc="delete drops old segments, compact keeps the newest record of each key, or both: compact,delete.",
    )
    min_cleanable_dirty_ratio: float = setting(
        0.5,
        name="min.cleanable.dirty.ratio",
        at_least=0,
        at_most=1,
        dynamic=True,
        doc="Compaction starts when this share of the log has not been compacted yet.",
    )
    min_compaction_lag_ms: int = setting(
        0,
        name="min.compaction.lag.ms",
        at_least=0,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="A record is not compacted away before this age.",
    )
    max_compaction_lag_ms: int = setting(
        _INT64_MAX,
        name="max.compaction.lag.ms",
        at_least=1,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="A record is not left uncompacted for longer than this, whatever the dirty ratio.",
    )
    delete_retention_ms: int = setting(
        DAY_MS,
        name="delete.retention.ms",
        at_least=0,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="How long a deletion marker of a compacted topic stays readable.",
    )
    max_message_bytes: int = setting(
        MIB + 12,
        name="max.message.bytes",
        at_least=0,
        dynamic=True,
        doc="The largest record batch, compressed as sent, that a producer may append.",
    )
    message_timestamp_type: str = setting(
        "CreateTime",
        name="message.timestamp.type",
        one_of=("CreateTime", "LogAppendTime"),
        dynamic=True,
        doc="Whose clock stamps the records: the producer's (CreateTime) or the broker's (LogAppendTime).",
    )
    message_timestamp_before_max_ms: int = setting(
        _INT64_MAX,
        name="message.timestamp.before.max.ms",
        at_least=0,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="With CreateTime, refuse batches whose newest record is older than this.",
    )
    message_timestamp_after_max_ms: int = setting(
        HOUR_MS,
        name="message.timestamp.after.max.ms",
        at_least=0,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="With CreateTime, refuse batches whose newest record is further in the future than this.",
    )
    flush_policy: str = setting(
        "acked",
        name="flush.policy",
        one_of=("acked", "os"),
        dynamic=True,
        doc="acked: what is acknowledged to acks=all or shown to a reader is on disk (fdatasync, shared by all that "
        "wait). os: it is with the operating system, as in Kafka; a power cut can lose it. The same on all brokers: by "
        "its own the controller judges what a broker may have lost.",
    )
    flush_messages: int = setting(
        _INT64_MAX,
        name="flush.messages",
        at_least=1,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="With flush.policy=os, ask for a flush after so many records.",
    )
    flush_ms: int = setting(
        _INT64_MAX,
        name="flush.ms",
        at_least=1,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="With flush.policy=os, ask for a flush when a record has waited this long.",
    )
    file_delete_delay_ms: int = setting(
        60_000,
        name="file.delete.delay.ms",
        at_least=0,
        at_most=_INT64_MAX,
        dynamic=True,
        doc="How long a deleted segment's file stays, for readers that still hold it.",
    )
