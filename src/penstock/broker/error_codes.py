"""Every reason of ours as Kafka's clients know it."""

from __future__ import annotations

from typing import Protocol

from kio.schema.errors import ErrorCode

from penstock.errors import Problem, Refused

_CODES: dict[Problem, ErrorCode] = {
    Problem.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.unknown_topic_or_partition,
    Problem.UNKNOWN_TOPIC_ID: ErrorCode.unknown_topic_id,
    Problem.INCONSISTENT_TOPIC_ID: ErrorCode.inconsistent_topic_id,
    Problem.TOPIC_ALREADY_EXISTS: ErrorCode.topic_already_exists,
    Problem.INVALID_TOPIC_NAME: ErrorCode.invalid_topic_exception,
    Problem.INVALID_PARTITIONS: ErrorCode.invalid_partitions,
    Problem.INVALID_REPLICATION_FACTOR: ErrorCode.invalid_replication_factor,
    Problem.INVALID_REPLICA_ASSIGNMENT: ErrorCode.invalid_replica_assignment,
    Problem.INVALID_CONFIG: ErrorCode.invalid_config,
    Problem.INVALID_REQUEST: ErrorCode.invalid_request,
    Problem.POLICY_VIOLATION: ErrorCode.policy_violation,
    Problem.NOT_LEADER: ErrorCode.not_leader_or_follower,
    Problem.FENCED_LEADER_EPOCH: ErrorCode.fenced_leader_epoch,
    Problem.UNKNOWN_LEADER_EPOCH: ErrorCode.unknown_leader_epoch,
    Problem.OFFSET_OUT_OF_RANGE: ErrorCode.offset_out_of_range,
    Problem.OFFSET_NOT_AVAILABLE: ErrorCode.offset_not_available,
    Problem.CORRUPT_RECORDS: ErrorCode.corrupt_message,
    Problem.INVALID_RECORD: ErrorCode.invalid_record,
    Problem.INVALID_TIMESTAMP: ErrorCode.invalid_timestamp,
    Problem.UNSUPPORTED_RECORD_FORMAT: ErrorCode.unsupported_for_message_format,
    Problem.UNSUPPORTED_COMPRESSION: ErrorCode.unsupported_compression_type,
    Problem.RECORDS_TOO_LARGE: ErrorCode.message_too_large,
    Problem.OUT_OF_ORDER_SEQUENCE: ErrorCode.out_of_order_sequence_number,
    # Nothing was written, and every client tries again: see replication/overtaking.py.
    Problem.EARLIER_BATCH_MISSING: ErrorCode.not_enough_replicas,
    Problem.DUPLICATE_SEQUENCE: ErrorCode.duplicate_sequence_number,
    Problem.INVALID_PRODUCER_EPOCH: ErrorCode.invalid_producer_epoch,
    Problem.UNKNOWN_PRODUCER: ErrorCode.unknown_producer_id,
    Problem.PRODUCER_FENCED: ErrorCode.producer_fenced,
    Problem.INVALID_PRODUCER_ID_MAPPING: ErrorCode.invalid_producer_id_mapping,
    Problem.INVALID_TXN_STATE: ErrorCode.invalid_txn_state,
    Problem.INVALID_TRANSACTION_TIMEOUT: ErrorCode.invalid_transaction_timeout,
    Problem.CONCURRENT_TRANSACTIONS: ErrorCode.concurrent_transactions,
    Problem.TRANSACTION_ABORTABLE: ErrorCode.transaction_abortable,
    # Nobody waits for the answer, and the connection ends.
    Problem.TRANSACTION_OVERTAKEN: ErrorCode.request_timed_out,
    Problem.TRANSACTION_COORDINATOR_FENCED: ErrorCode.transaction_coordinator_fenced,
    Problem.TRANSACTIONAL_ID_NOT_FOUND: ErrorCode.transactional_id_not_found,
    Problem.STORAGE_FAILED: ErrorCode.kafka_storage_error,
    Problem.NOT_ENOUGH_REPLICAS: ErrorCode.not_enough_replicas,
    Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.not_enough_replicas_after_append,
    Problem.REQUEST_TIMED_OUT: ErrorCode.request_timed_out,
    Problem.INVALID_GROUP_ID: ErrorCode.invalid_group_id,
    Problem.UNKNOWN_GROUP: ErrorCode.group_id_not_found,
    Problem.GROUP_NOT_EMPTY: ErrorCode.non_empty_group,
    Problem.GROUP_SUBSCRIBED: ErrorCode.group_subscribed_to_topic,
    Problem.GROUP_FULL: ErrorCode.group_max_size_reached,
    Problem.ILLEGAL_GENERATION: ErrorCode.illegal_generation,
    Problem.UNKNOWN_MEMBER: ErrorCode.unknown_member_id,
    Problem.MEMBER_ID_REQUIRED: ErrorCode.member_id_required,
    Problem.FENCED_INSTANCE_ID: ErrorCode.fenced_instance_id,
    Problem.UNRELEASED_INSTANCE_ID: ErrorCode.unreleased_instance_id,
    Problem.FENCED_MEMBER_EPOCH: ErrorCode.fenced_member_epoch,
    Problem.STALE_MEMBER_EPOCH: ErrorCode.stale_member_epoch,
    Problem.UNSUPPORTED_ASSIGNOR: ErrorCode.unsupported_assignor,
    Problem.INVALID_REGULAR_EXPRESSION: ErrorCode.invalid_regular_expression,
    Problem.INCONSISTENT_GROUP_PROTOCOL: ErrorCode.inconsistent_group_protocol,
    Problem.INVALID_SESSION_TIMEOUT: ErrorCode.invalid_session_timeout,
    Problem.INVALID_COMMIT_OFFSET_SIZE: ErrorCode.invalid_commit_offset_size,
    Problem.OFFSET_METADATA_TOO_LARGE: ErrorCode.offset_metadata_too_large,
    # Nobody waits for the answer, and the connection ends.
    Problem.COMMIT_OVERTAKEN: ErrorCode.request_timed_out,
    Problem.UNSTABLE_OFFSET_COMMIT: ErrorCode.unstable_offset_commit,
    Problem.REBALANCE_IN_PROGRESS: ErrorCode.rebalance_in_progress,
    Problem.COORDINATOR_LOADING: ErrorCode.coordinator_load_in_progress,
    Problem.COORDINATOR_NOT_AVAILABLE: ErrorCode.coordinator_not_available,
    Problem.NOT_COORDINATOR: ErrorCode.not_coordinator,
    Problem.FETCH_SESSION_NOT_FOUND: ErrorCode.fetch_session_id_not_found,
    Problem.INVALID_FETCH_SESSION_EPOCH: ErrorCode.invalid_fetch_session_epoch,
    Problem.UNSUPPORTED_VERSION: ErrorCode.unsupported_version,
    Problem.STORE_CONFLICT: ErrorCode.unknown_server_error,
    # As unknown as whatever timed out: it may have been done, and trying again may help.
    Problem.STORE_UNAVAILABLE: ErrorCode.request_timed_out,
    Problem.NOT_CONTROLLER: ErrorCode.not_controller,
    Problem.STALE_BROKER_EPOCH: ErrorCode.stale_broker_epoch,
    Problem.BROKER_NOT_REGISTERED: ErrorCode.broker_id_not_registered,
    Problem.INVALID_UPDATE_VERSION: ErrorCode.invalid_update_version,
    Problem.INELIGIBLE_REPLICA: ErrorCode.ineligible_replica,
    Problem.NEW_LEADER_ELECTED: ErrorCode.new_leader_elected,
    Problem.NO_REASSIGNMENT_IN_PROGRESS: ErrorCode.no_reassignment_in_progress,
    Problem.ELECTION_NOT_NEEDED: ErrorCode.election_not_needed,
    Problem.PREFERRED_LEADER_NOT_AVAILABLE: ErrorCode.preferred_leader_not_available,
    Problem.ELIGIBLE_LEADERS_NOT_AVAILABLE: ErrorCode.eligible_leaders_not_available,
    # Of those that say that nothing was written and that trying again helps, the one that every client takes so.
    Problem.BUSY: ErrorCode.not_enough_replicas,
}

# A reason without a code would reach a client as an unknown error: refuse to start instead.
if missing := set(Problem) - set(_CODES):
    raise AssertionError(f"no Kafka error code for {sorted(problem.name for problem in missing)}")

NONE = ErrorCode.none


def code_of(refusal: Problem | Refused) -> ErrorCode:
    return _CODES[refusal.problem if isinstance(refusal, Refused) else refusal]


def code_or_none(problem: Problem | None) -> ErrorCode:
    return NONE if problem is None else _CODES[problem]


class Answer(Protocol):
    """An answer of a state machine: `problem` None means success."""

    @property
    def problem(self) -> Problem | None: ...


def code_of_answer(answer: Answer | Refused) -> ErrorCode:
    return code_or_none(answer.problem)
