"""What can happen to transactions: one event per API, named after what it asks for, and what the shell tells.

AddOffsetsToTxn is `AddPartitions` with the partition of __consumer_offsets that has the group.
"""

from __future__ import annotations

from msgspec import Struct

from penstock.transactions.core.transaction import Producer, TopicPartitions


class InitProducerId(Struct, frozen=True):
    """`producer_id` and `producer_epoch`: what the client had until now (KIP-360), or -1 both.

    `fresh_producer_id`: one that nobody has, or -1; without it the answer may be that one is needed.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    fresh_producer_id: int = -1


class AddPartitions(Struct, frozen=True):
    """`connection`: the number of the client's, in version 1, which is higher the later it was made. None: the leader

    of a partition asks, as in version 2.
    """

    transactional_id: str
    producer: Producer
    topics: tuple[TopicPartitions, ...]
    connection: int | None = None


class VerifyPartitions(Struct, frozen=True):
    """A leader asks, in version 1: may this producer write to these partitions?"""

    transactional_id: str
    producer: Producer
    topics: tuple[TopicPartitions, ...]


class EndTransaction(Struct, frozen=True):
    """`transaction_version` 2: the client takes another epoch from the answer. `connection` counts in version 1."""

    transactional_id: str
    producer: Producer
    commit: bool
    transaction_version: int
    connection: int = 0
    fresh_producer_id: int = -1


class AbortTransaction(Struct, frozen=True):
    """An operator's wish. `producer`: only if it is still this one's transaction."""

    transactional_id: str
    producer: Producer | None = None


class MarkersWritten(Struct, frozen=True):
    """To every partition of the transaction that was the `ends`th to end."""

    transactional_id: str
    ends: int


class ListTransactions(Struct, frozen=True):
    """Empty filters let everything pass; `longer_than_ms` does when it is negative."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = -1


class DescribeTransaction(Struct, frozen=True):
    """A request for several is several events."""

    transactional_id: str
