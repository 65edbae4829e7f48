"""InitProducerId: clients before version 4 do not know PRODUCER_FENCED."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse

from penstock.wire.lifts.lift import Lift

_FIRST_WITH_FENCED = 4


def _adjust(response: InitProducerIdResponse, version: int) -> InitProducerIdResponse:
    if version < _FIRST_WITH_FENCED and response.error_code is ErrorCode.producer_fenced:
        return replace(response, error_code=ErrorCode.invalid_producer_epoch)
    return response


LIFT = Lift(api_key=22, adjust_response=_adjust)
