"""What an operator's command and the controller say to each other: JSON, so that any tool can ask."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.cluster.core.plan import Move, Plan, Unmoved
from penstock.cluster.core.progress import Progress
from penstock.cluster.core.status import Status
from penstock.decoding import decoded
from penstock.errors import Refused

# Bytes a second that each broker gets by these moves together; 0: as fast as it can.
Rate = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class AskStatus(msgspec.Struct, frozen=True, tag="status", tag_field="ask"):
    pass


class AskPlan(msgspec.Struct, frozen=True, tag="plan", tag_field="ask"):
    """Nothing is changed by it."""

    kind: Literal["rebalance", "leaders", "drain"]
    # Of a drain.
    node_id: int | None = None


class Execute(msgspec.Struct, frozen=True, tag="execute", tag_field="ask"):
    """Moves of a plan; each is refused if its partition is not as it was planned for any more."""

    moves: tuple[Move, ...]
    throttled_rate: Rate = 0


class SetDrained(msgspec.Struct, frozen=True, tag="drain", tag_field="ask"):
    """Whether the broker is to be emptied, by a plan that is in the answer. If not any more, what is left stays."""

    node_id: int
    draining: bool
    throttled_rate: Rate = 0


class SetThrottle(msgspec.Struct, frozen=True, tag="throttle", tag_field="ask"):
    """Of all moves under way, and of those that drain brokers."""

    throttled_rate: Rate


class AskProgress(msgspec.Struct, frozen=True, tag="progress", tag_field="ask"):
    moves: tuple[Move, ...]


class Elect(msgspec.Struct, frozen=True, tag="elect", tag_field="ask"):
    """The preferred leaders: of these partitions, or of all."""

    partitions: tuple[tuple[str, int], ...] | None = None


OperatorRequest = AskStatus | AskPlan | Execute | SetDrained | SetThrottle | AskProgress | Elect


class OperatorReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """`problem` is empty when it was done."""

    problem: str = ""
    text: str = ""
    # Partitions that were refused, or stand in the way of what was.
    refused: tuple[Unmoved, ...] = ()
    # Partitions for which it was done.
    done: int = 0
    status: Status | None = None
    plan: Plan | None = None
    progress: Progress | None = None

    @classmethod
    def refusing(cls, refused: Refused, partitions: tuple[Unmoved, ...] = ()) -> OperatorReply:
        return cls(refused.problem.name, refused.text, partitions)


_REQUESTS: msgspec.json.Decoder[OperatorRequest] = msgspec.json.Decoder(OperatorRequest)


def decode_request(data: bytes) -> OperatorRequest:
    """Raises ValueError for what is none."""
    return decoded(_REQUESTS, data)


def encode_reply(reply: OperatorReply) -> bytes:
    return msgspec.json.encode(reply)
