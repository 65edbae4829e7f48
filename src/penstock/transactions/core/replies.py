"""All that the machine answers with."""

from __future__ import annotations

from penstock.transactions.core.answers import TransactionAnswer
from penstock.transactions.core.query_answers import QueryAnswer

MachineAnswer = TransactionAnswer | QueryAnswer
