"""What queries are answered with. `problem` None means success; `text` says more of a problem."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import Problem, Refused
from penstock.transactions.core.answers import NO_PRODUCER
from penstock.transactions.core.transaction import Producer


class AttemptAnswer(Struct, frozen=True):
    """`is_committed`: the batch is, and nothing is to be written for it. `needs_producer_id`: as in ProducerAnswer."""

    problem: Problem | None
    text: str = ""
    transactional_id: str = ""
    producer: Producer = NO_PRODUCER
    is_committed: bool = False
    needs_producer_id: bool = False

    @classmethod
    def refusing(cls, refused: Refused) -> AttemptAnswer:
        return cls(refused.problem, refused.text)


class BatchAnswer(Struct, frozen=True):
    """`is_repeated`: the batch was committed before; what this request named has come to nothing, or is that batch."""

    problem: Problem | None
    text: str = ""
    is_repeated: bool = False

    @classmethod
    def refusing(cls, refused: Refused) -> BatchAnswer:
        return cls(refused.problem, refused.text)


QueryAnswer = AttemptAnswer | BatchAnswer
