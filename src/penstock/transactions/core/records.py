"""The record of __transaction_state, and its bytes: replication/core/record_kinds.py has the rules."""

from __future__ import annotations

from msgspec import Struct

from penstock.replication.core.record_kinds import RecordKind, RecordKinds
from penstock.transactions.core.transaction import Transaction


class TransactionRecord(Struct, frozen=True):
    """None: the id has expired."""

    transactional_id: str
    value: Transaction | None


_KINDS: RecordKinds[TransactionRecord] = RecordKinds(
    "__transaction_state", RecordKind(1, TransactionRecord, tuple[str], Transaction)
)

encode = _KINDS.encode
decode = _KINDS.decode
