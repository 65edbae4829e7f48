"""AddOffsetsToTxn: two errors came with later versions."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from penstock.wire.lifts.lift import Lift
from penstock.wire.lifts.transaction_errors import as_known


def _adjust(response: AddOffsetsToTxnResponse, version: int) -> AddOffsetsToTxnResponse:
    code = as_known(response.error_code, version, first_with_fenced=2, first_with_abortable=4)
    return response if code is response.error_code else replace(response, error_code=code)


LIFT = Lift(api_key=25, adjust_response=_adjust)
