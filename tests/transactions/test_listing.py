"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

from tests.transactions.asking import ID, TIMEOUT_MS, add, partitions, producer_of, started

from penstock.errors import Problem
from penstock.transactions.core.answers import DescribeAnswer, ListAnswer, ProducerAnswer
from penstock.transactions.core.events import DescribeTransaction, InitProducerId, ListTransactions


def test_transactions_are_listed_by_state_producer_and_age() -> None:
    runner = started()
    other = runner.ask(InitProducerId("other", TIMEOUT_MS), ProducerAnswer).producer
    producer = producer_of(runner)
    add(runner, producer, 0)
    runner.now_ms += 1000

    def listed(event: ListTransactions) -> set[str]:
        return {row.transactional_id for row in runner.ask(event, ListAnswer).transactions}

    assert listed(ListTransactions()) == {ID, "other"}
    assert listed(ListTransactions(states=("Ongoing", "PrepareAbort"))) == {ID}
    assert listed(ListTransactions(producer_ids=(other.id,))) == {"other"}
    assert listed(ListTransactions(states=("Ongoing",), longer_than_ms=999)) == {ID}
    assert listed(ListTransactions(states=("Ongoing",), longer_than_ms=1000)) == set()
    assert listed(ListTransactions(states=("Odd",))) == set()
    assert runner.ask(ListTransactions(states=("Odd", "Empty")), ListAnswer).unknown_states == ("Odd",)


def test_a_transaction_is_described() -> None:
    runner = started()
    assert runner.ask(DescribeTransaction(""), DescribeAnswer).problem is Problem.INVALID_REQUEST
    assert runner.ask(DescribeTransaction(ID), DescribeAnswer).problem is Problem.TRANSACTIONAL_ID_NOT_FOUND
    producer = producer_of(runner)
    add(runner, producer, 4, 2)
    assert runner.ask(DescribeTransaction(ID), DescribeAnswer) == DescribeAnswer(
        None, ID, "Ongoing", producer, TIMEOUT_MS, runner.now_ms, partitions(2, 4)
    )
