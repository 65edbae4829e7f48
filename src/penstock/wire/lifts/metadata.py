"""Metadata: version 0 cannot say null, so there an empty list of topics asks for all."""

from __future__ import annotations

from dataclasses import replace

from kio.schema.metadata.v13.request import MetadataRequest

from penstock.wire.lifts.lift import Lift


def _adjust(request: MetadataRequest, version: int) -> MetadataRequest:
    return replace(request, topics=None) if version == 0 and not request.topics else request


LIFT = Lift(api_key=3, adjust_request=_adjust)
