"""What transactions do to offsets, and the answer; `TxnOffsetCommit` is answered as a commit is."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import Problem
from penstock.groups.core.events import CommitOffsets, TopicOffsets


class TransactionGuard(Struct, frozen=True):
    """How many transactions the machine had seen end when it was taken; no other machine honours it."""

    machine: int
    ends: int


class TxnOffsetCommit(Struct, frozen=True):
    """Offsets that shall be committed with the producer's transaction.

    `guard`: taken from the machine before the transaction's coordinator was asked whether that transaction is under way
    and has this machine's partition in it. Without one the event counts only if the machine knows that itself.
    `generation` is the member epoch in KIP-848 groups, and -1 from producers that do not say for whom they commit.
    `connection`: as in `CommitOffsets`.
    """

    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicOffsets, ...]
    member_id: str = ""
    generation: int = -1
    group_instance_id: str | None = None
    guard: TransactionGuard | None = None
    connection: int = 0

    @property
    def names_member(self) -> bool:
        return self.generation >= 0 or bool(self.member_id) or self.group_instance_id is not None

    def outside_transaction(self) -> CommitOffsets:
        """The same by the same member, for what holds in either case."""
        return CommitOffsets(
            group_id=self.group_id,
            topics=self.topics,
            member_id=self.member_id,
            generation=self.generation,
            group_instance_id=self.group_instance_id,
        )


class TransactionEnded(Struct, frozen=True):
    """The marker of a transaction, for all groups of this machine: what its producer sent is committed, or void.

    `bumps_epoch`: under version 2 (KIP-890) a marker has a higher epoch than everything in its transaction. One of the
    same epoch is then not its own, but comes late from the transaction before.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    bumps_epoch: bool = False


class TransactionEndedAnswer(Struct, frozen=True):
    problem: Problem | None
