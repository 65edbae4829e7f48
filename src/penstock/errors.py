"""Why a request can be refused. Storage and coordination raise `PenstockError`; facades make it `Refused`, once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Problem(Enum):
    """Every reason that a client can be told; each protocol edge maps all of them (broker/error_codes.py)."""

    UNKNOWN_TOPIC_OR_PARTITION = auto()
    UNKNOWN_TOPIC_ID = auto()
    INCONSISTENT_TOPIC_ID = auto()
    TOPIC_ALREADY_EXISTS = auto()
    INVALID_TOPIC_NAME = auto()
    INVALID_PARTITIONS = auto()
    INVALID_REPLICATION_FACTOR = auto()
    INVALID_REPLICA_ASSIGNMENT = auto()
    INVALID_CONFIG = auto()
    INVALID_REQUEST = auto()
    POLICY_VIOLATION = auto()
    NOT_LEADER = auto()
    FENCED_LEADER_EPOCH = auto()
    UNKNOWN_LEADER_EPOCH = auto()
    OFFSET_OUT_OF_RANGE = auto()
    OFFSET_NOT_AVAILABLE = auto()
    CORRUPT_RECORDS = auto()
    INVALID_RECORD = auto()
    INVALID_TIMESTAMP = auto()
    UNSUPPORTED_RECORD_FORMAT = auto()
    UNSUPPORTED_COMPRESSION = auto()
    RECORDS_TOO_LARGE = auto()
    OUT_OF_ORDER_SEQUENCE = auto()
    EARLIER_BATCH_MISSING = auto()
    DUPLICATE_SEQUENCE = auto()
    INVALID_PRODUCER_EPOCH = auto()
    UNKNOWN_PRODUCER = auto()
    PRODUCER_FENCED = auto()
    INVALID_PRODUCER_ID_MAPPING = auto()
    INVALID_TXN_STATE = auto()
    INVALID_TRANSACTION_TIMEOUT = auto()
    CONCURRENT_TRANSACTIONS = auto()
    TRANSACTION_ABORTABLE = auto()
    TRANSACTION_OVERTAKEN = auto()
    TRANSACTION_COORDINATOR_FENCED = auto()
    TRANSACTIONAL_ID_NOT_FOUND = auto()
    STORAGE_FAILED = auto()
    NOT_ENOUGH_REPLICAS = auto()
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = auto()
    REQUEST_TIMED_OUT = auto()
    INVALID_GROUP_ID = auto()
    UNKNOWN_GROUP = auto()
    GROUP_NOT_EMPTY = auto()
    GROUP_SUBSCRIBED = auto()
    GROUP_FULL = auto()
    ILLEGAL_GENERATION = auto()
    UNKNOWN_MEMBER = auto()
    MEMBER_ID_REQUIRED = auto()
    FENCED_INSTANCE_ID = auto()
    UNRELEASED_INSTANCE_ID = auto()
    FENCED_MEMBER_EPOCH = auto()
    STALE_MEMBER_EPOCH = auto()
    UNSUPPORTED_ASSIGNOR = auto()
    INVALID_REGULAR_EXPRESSION = auto()
    INCONSISTENT_GROUP_PROTOCOL = auto()
    INVALID_SESSION_TIMEOUT = auto()
    INVALID_COMMIT_OFFSET_SIZE = auto()
    OFFSET_METADATA_TOO_LARGE = auto()
    COMMIT_OVERTAKEN = auto()
    UNSTABLE_OFFSET_COMMIT = auto()
    REBALANCE_IN_PROGRESS = auto()
    COORDINATOR_LOADING = auto()
    COORDINATOR_NOT_AVAILABLE = auto()
    NOT_COORDINATOR = auto()
    FETCH_SESSION_NOT_FOUND = auto()
    INVALID_FETCH_SESSION_EPOCH = auto()
    UNSUPPORTED_VERSION = auto()
    STORE_CONFLICT = auto()
    STORE_UNAVAILABLE = auto()
    NOT_CONTROLLER = auto()
    STALE_BROKER_EPOCH = auto()
    BROKER_NOT_REGISTERED = auto()
    INVALID_UPDATE_VERSION = auto()
    INELIGIBLE_REPLICA = auto()
    NEW_LEADER_ELECTED = auto()
    NO_REASSIGNMENT_IN_PROGRESS = auto()
    ELECTION_NOT_NEEDED = auto()
    PREFERRED_LEADER_NOT_AVAILABLE = auto()
    ELIGIBLE_LEADERS_NOT_AVAILABLE = auto()
    BUSY = auto()


class PenstockError(Exception):
    """A refusal on its way up. The text says what was wrong and, where someone can act, what to do."""

    def __init__(self, problem: Problem, text: str) -> None:
        super().__init__(text)
        self.problem = problem


# Some texts repeat what a client sent, and no string of an answer may have more than 32 KiB.
LONGEST_TEXT = 2048


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal as a value."""

    problem: Problem
    text: str = ""

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_TEXT:
            object.__setattr__(self, "text", self.text[: LONGEST_TEXT - 1] + "…")

    @classmethod
    def by(cls, error: PenstockError) -> Refused:
        return cls(error.problem, str(error))
