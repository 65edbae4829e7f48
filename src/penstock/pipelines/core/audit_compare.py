"""How far the replicas of a partition must be equal, and by what that is seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec

from penstock.pipelines.core.audited_log import NO_TOPIC_ID, UNKNOWN, AuditedLog
from penstock.storage.core.aborted import AbortedTransaction

# Offsets that share a digest: a difference is told no finer than that.
_LEAST_WINDOW = 1024
# Of one replica of a partition: more would only tell differences finer.
_MOST_WINDOWS = 4096


class Comparison(msgspec.Struct, frozen=True):
    """Offsets from `start` on, below `limit`.

    By digests of all batches in each `window` of offsets; or, where logs are compacted, each for itself and at its own
    time, `by_key`: by what the newest record of each key is.
    """

    start: int
    limit: int
    window: int
    by_key: bool
    # How many have to be equal.
    replicas: int


def comparison_of(logs: Sequence[AuditedLog]) -> Comparison | None:
    """Of the replicas of one partition. None: there is nothing that all of them have.

    So it is, too, where a node was down while the topic was deleted and another one of its name was made.
    """
    if len(logs) < 2 or len({log.topic_id for log in logs} - {NO_TOPIC_ID}) > 1:
        return None
    start = max(log.start_offset for log in logs)
    limit = min(_known_end(log) for log in logs)
    for one, other in combinations([log for log in logs if not log.is_served], 2):
        limit = min(limit, _parting_offset(one, other))
    by_key = any(log.may_have_gaps for log in logs)
    if by_key:
        # What was aborted is no record of its key, and gone where compaction has been.
        limit = min(limit, *(log.stable_offset for log in logs))
    if limit <= start:
        return None
    window = _LEAST_WINDOW
    while (limit - start) // window > _MOST_WINDOWS:
        window *= 2
    return Comparison(start, limit, window, by_key, len(logs))


def _known_end(log: AuditedLog) -> int:
    """Of a log that is served, what is committed; of another, what a checkpoint speaks for: nothing that is on disk

    tells what is committed, and what is behind that may be cut off when its node starts.
    """
    return log.vouched_offset if log.high_watermark == UNKNOWN else log.high_watermark


def _parting_offset(one: AuditedLog, other: AuditedLog) -> int:
    """Where two logs part by their leader epochs, as replicas find it (KIP-101): behind that, the next start truncates

    one of them, and nothing is wrong.
    """
    first, second = one.epochs(), other.epochs()
    if first.latest is None or second.latest is None:
        return 0
    latest = min(first.latest, second.latest)
    ends = first.end_offset_of(latest, one.vouched_offset), second.end_offset_of(latest, other.vouched_offset)
    while ends[0].epoch != ends[1].epoch:
        latest = min(end.epoch for end in ends)
        ends = first.end_offset_of(latest, one.vouched_offset), second.end_offset_of(latest, other.vouched_offset)
        if UNKNOWN in (ends[0].epoch, ends[1].epoch):
            return 0
    return min(end.end_offset for end in ends)


class AbortedRecords:
    """Which batches of one log were aborted, as far as its index of them is asked for."""

    def __init__(self, rows: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for row in rows:
            self._by_producer.setdefault(row.producer_id, []).append(row)

    def has(self, producer_id: int, base_offset: int) -> bool:
        return any(row.first_offset <= base_offset <= row.last_offset for row in self._by_producer.get(producer_id, ()))
