"""The records of __transaction_state, and their bytes: replication/core/record_kinds.py has the rules."""

from __future__ import annotations

from msgspec import Struct

from penstock.replication.core.record_kinds import RecordKind, RecordKinds
from penstock.transactions.core.query import Query
from penstock.transactions.core.transaction import Transaction


class TransactionRecord(Struct, frozen=True):
    """None: the id has expired."""

    transactional_id: str
    value: Transaction | None


class QueryRecord(Struct, frozen=True):
    """None: nobody has used it for long."""

    query: str
    value: Query | None


StateRecord = TransactionRecord | QueryRecord

_KINDS: RecordKinds[StateRecord] = RecordKinds(
    "__transaction_state",
    RecordKind(1, TransactionRecord, tuple[str], Transaction),
    RecordKind(2, QueryRecord, tuple[str], Query),
)

encode = _KINDS.encode
decode = _KINDS.decode
