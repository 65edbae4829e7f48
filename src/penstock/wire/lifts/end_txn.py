"""EndTxn: from version 5 on the producer's epoch goes up with every end (KIP-890), which no field of it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.end_txn.v5.response import EndTxnResponse

from penstock.wire.lifts.lift import Lift
from penstock.wire.lifts.transaction_errors import as_known

_FIRST_THAT_BUMPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    # The client goes on with the id and epoch of the answer.
    bumps_epoch: bool = False


def _adjust_request(request: EndTxnRequest, version: int) -> EndTxnRequest:
    return replace(request, bumps_epoch=True) if version >= _FIRST_THAT_BUMPS else request


def _adjust_response(response: EndTxnResponse, version: int) -> EndTxnResponse:
    code = as_known(response.error_code, version, first_with_fenced=2, first_with_abortable=4)
    return response if code is response.error_code else replace(response, error_code=code)


LIFT = Lift(api_key=26, request=EndTxnRequest, adjust_request=_adjust_request, adjust_response=_adjust_response)
