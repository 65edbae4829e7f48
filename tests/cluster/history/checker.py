"""All checks over one history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from tests.cluster.history import agreement, groups, transactions, values
from tests.cluster.history.events import AnyEvent
from tests.cluster.history.history import Finding, History

# A broken cluster breaks every value; some of each kind tell as much.
MOST_OF_EACH = 20

CHECKS: tuple[Callable[[History], Iterator[Finding]], ...] = (
    values.lost,
    values.one_per_offset,
    values.read_and_gone,
    values.never_sent,
    values.failed,
    values.doubled,
    values.reordered,
    values.skipped,
    agreement.two_leaders,
    agreement.epochs_fall,
    agreement.watermark_fell,
    agreement.replicas_differ,
    agreement.log_broken,
    groups.commit_went_back,
    groups.two_owners,
    transactions.lost,
    transactions.input_lost,
    transactions.aborted_read,
    transactions.torn,
    transactions.done_twice,
    transactions.precommitted,
)


def check(events: Iterable[AnyEvent]) -> list[Finding]:
    """Events in the order of time; at most MOST_OF_EACH findings of each check."""
    history = History(events)
    return [finding for each in CHECKS for finding in islice(each(history), MOST_OF_EACH)]
