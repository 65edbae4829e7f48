"""Errors of transactions that came with later versions, in the words of the older ones."""

from __future__ import annotations

from kio.schema.errors import ErrorCode


def as_known(code: ErrorCode, version: int, *, first_with_fenced: int, first_with_abortable: int) -> ErrorCode:
    if code is ErrorCode.producer_fenced and version < first_with_fenced:
        return ErrorCode.invalid_producer_epoch
    if code is ErrorCode.transaction_abortable and version < first_with_abortable:
        return ErrorCode.invalid_txn_state
    return code
