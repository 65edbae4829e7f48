"""What the files of a log are called, and what identifies the topic that they are of."""

from __future__ import annotations

import re
from uuid import UUID

import msgspec

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
# What can be made again from the log.
SIDE_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
# The log goes first: what is left without it after a crash is swept up at the next start.
SUFFIXES = (LOG_SUFFIX, *SIDE_SUFFIXES)

# Base offset, generation if it is not 0, suffix.
SEGMENT_FILE = re.compile(r"(\d{20})(?:-(\d+))?(\.[a-z]+)")

CHECKPOINT_NAME = "checkpoint"
START_OFFSET_NAME = "start-offset"
# Word that offsets may be missing between batches.
GAPS_NAME = "gaps"
# Beside the partitions of a topic.
TOPIC_ID_NAME = "topic-id"


class TopicIdentity(msgspec.Struct, array_like=True, frozen=True):
    topic_id: UUID


def segment_stem(base_offset: int, generation: int) -> str:
    """The name of its files without their suffix. Compaction writes the next generation beside the one in use."""
    return f"{base_offset:020d}" + (f"-{generation}" if generation else "")
