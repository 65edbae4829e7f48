"""How the batches of a query end: committed, by one append that decides about all its attempts, or given up.

That append is what makes a query exactly once. It says in one that the batch is committed and which transactions it
consists of; markers follow from that as they do for every transaction. What it does not name is over with it.
"""

from __future__ import annotations

from penstock.errors import Problem, Refused
from penstock.transactions.core.adding import size_of
from penstock.transactions.core.draft import Draft
from penstock.transactions.core.limits import TransactionLimits
from penstock.transactions.core.query import Claim
from penstock.transactions.core.query_answers import BatchAnswer
from penstock.transactions.core.query_events import AbortBatch, AttemptProducer, CommitBatch
from penstock.transactions.core.query_runs import admitted
from penstock.transactions.core.state import TransactionsState
from penstock.transactions.core.transaction import Ending, Transaction

_REPEATED = BatchAnswer(None, is_repeated=True)


def commit_batch(state: TransactionsState, event: CommitBatch, limits: TransactionLimits, draft: Draft) -> BatchAnswer:
    query = admitted(state, event, limits, draft.now_ms, once=event.once)
    if isinstance(query, Refused):
        return BatchAnswer.refusing(query)
    if event.batch_id <= query.batch_id:
        return _REPEATED
    found = _all_open(state, event, limits)
    if isinstance(found, Refused):
        return BatchAnswer.refusing(found)
    draft.write_query(event.query, query.committed(event.batch_id, draft.now_ms))
    for transactional_id, transaction in found.items():
        # Nobody goes on as this producer, so whoever has it is fenced with it.
        fencing = transaction.producer.fencing
        draft.write(transactional_id, transaction.prepared(True, fencing, None, Ending(fencing, 2), draft.now_ms))
    return BatchAnswer(None)


def _all_open(
    state: TransactionsState, event: CommitBatch, limits: TransactionLimits
) -> dict[str, Transaction] | Refused:
    claim = Claim(event.query, event.run, event.batch_id)
    found: dict[str, Transaction] = {}
    size = 0
    for attempt in event.attempts:
        if attempt.transactional_id in found:
            return _refused(Problem.INVALID_REQUEST, attempt, "it is named twice")
        transaction = _open(state.find(attempt.transactional_id), attempt, claim)
        if isinstance(transaction, Refused):
            return transaction
        found[attempt.transactional_id] = transaction
        size += size_of(transaction.topics)
    if size > limits.max_commit_bytes:
        text = f"the batch's attempts name more partitions than fit into one commit ({limits.max_commit_bytes} bytes)"
        return Refused(Problem.POLICY_VIOLATION, f"{text}: write it by fewer tasks, or to fewer partitions")
    return found


def _open(found: Transaction | None, attempt: AttemptProducer, claim: Claim) -> Transaction | Refused:
    if found is None or found.claim is None or found.producer.id != attempt.producer.id:
        return _refused(Problem.INVALID_PRODUCER_ID_MAPPING, attempt, "nothing is known of it, or not any more")
    if found.producer != attempt.producer:
        return _refused(Problem.PRODUCER_FENCED, attempt, "it has timed out, or was aborted")
    if found.claim != claim:
        return _refused(Problem.PRODUCER_FENCED, attempt, "it was made for another batch or by another run")
    if not found.is_ongoing:
        return _refused(Problem.INVALID_TXN_STATE, attempt, f"it is {found.state.value}")
    return found


def _refused(problem: Problem, attempt: AttemptProducer, why: str) -> Refused:
    return Refused(problem, f"{attempt.transactional_id} of producer {attempt.producer.id} cannot be committed: {why}")


def abort_batch(state: TransactionsState, event: AbortBatch, limits: TransactionLimits, draft: Draft) -> BatchAnswer:
    """It counts also for a run of which nothing is known: its tasks can still come, and nobody would end theirs.

    Of a run that was replaced nothing is open that is not being aborted.
    """
    known = state.queries.get(event.query)
    query = admitted(state, event, limits, draft.now_ms, once=event.once)
    if isinstance(query, Refused):
        is_over = query.problem in (Problem.PRODUCER_FENCED, Problem.INVALID_TXN_STATE)
        return BatchAnswer(None) if is_over else BatchAnswer.refusing(query)
    if event.batch_id <= query.batch_id:
        return _REPEATED
    if known is None or known.run == event.run:
        draft.write_query(event.query, query.aborted(event.batch_id, draft.now_ms))
    else:
        # It may come late, and has no say about the run that is there.
        draft.write_query(event.query, known.without(event.run, draft.now_ms))
    return BatchAnswer(None)
