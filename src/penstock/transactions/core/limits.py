"""What the operator allows transactions to do; plain values, taken from config/transactions.py."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.units import DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    max_timeout_ms: int = 15 * MINUTE_MS
    id_expiration_ms: int = 7 * DAY_MS
    expiry_interval_ms: int = HOUR_MS
    max_partitions: int = 10_000
    max_partition_bytes: int = 256 * KIB
    """Of a transaction. All of them are written with every step of it, so without an end to it small requests would

    write without measure. The bytes are those of topic names and partition numbers.
    """
    max_ids: int = 100_000
    """Of one coordinator partition, which has them all in memory. Programs that draw a new transactional id at every

    start fill it; ids that nobody uses expire.
    """
    max_queries: int = 100_000
    """Of one coordinator partition."""
    max_commit_bytes: int = 8 * MIB
    """Of topic names and partition numbers in all transactions of a query's batch: they are written again, as one

    batch of records, when it is committed.
    """


MAX_TRANSACTIONAL_ID_CHARACTERS = 1024
"""Kafka takes up to 32,767 bytes. But the id is in every record of its transactions, and no real name is longer."""

ONCE_KEPT_MS = HOUR_MS
"""How long a query is remembered that has one batch only: longer than anybody repeats the commit of it."""
