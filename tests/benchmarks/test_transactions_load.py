"""What a load of transactions leaves for readers of committed records, and what it is counted as."""

from __future__ import annotations

import pytest
from benchmarks.load.job import Outcome
from benchmarks.load.transactions import Transactions
from benchmarks.results import metrics_of


@pytest.mark.parametrize(("aborted_percent", "fewer"), [(0, 0), (5, 25), (50, 250), (100, 500)])
def test_readers_see_what_was_committed(aborted_percent: int, fewer: int) -> None:
    everything = Transactions(transactions=500, messages_each=7).committed_messages()
    job = Transactions(transactions=500, messages_each=7, aborted_percent=aborted_percent)
    assert job.committed_messages() == everything - 7 * fewer


def test_transactions_are_counted_instead_of_messages() -> None:
    metrics = metrics_of(Outcome(1000, 1000, 2.0, 0.5, 0.25, 0.0, transactions=100))
    assert metrics["transactions/s"] == 50.0
    assert metrics["broker CPU-ms/transaction"] == 5.0
    assert "messages/s" not in metrics
