"""What a follower's fetch is answered with, when it sets something going itself."""

from __future__ import annotations

import asyncio

from tests.broker.test_read_committed import OS, base_offsets, fetcher
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world

from penstock.broker.api import Caller
from penstock.cluster.core.image import PartitionImage, TopicImage
from penstock.coordination.paths import PartitionState
from penstock.later import Later
from penstock.replication.partition import Partition
from penstock.units import MIB
from penstock.wire.fetch import FetchRequest, PartitionFetch, TopicFetch
from penstock.wire.fetched import FetchResponse

FOLLOWER = 2
# Longer than the test lasts.
MAX_WAIT_MS = 60_000


async def replicated(node: World, topic: str) -> Partition:
    """Broker 1 leads it, and the follower is in sync."""
    state = PartitionState(leader=1, leader_epoch=0, replicas=(1, FOLLOWER), isr=(1, FOLLOWER))
    await node.replicas.open_topic(TopicImage(topic, topic_id(topic), (PartitionImage(state, version=0),), OS))
    partition = node.replicas.find(topic, 0)
    assert isinstance(partition, Partition)
    return partition


def asking(**offsets: int) -> FetchRequest:
    topics = [
        TopicFetch("", topic_id(topic), [PartitionFetch(0, 0, offset, 0 if offset else -1, 0, MIB)])
        for topic, offset in offsets.items()
    ]
    return FetchRequest(FOLLOWER, 1, MAX_WAIT_MS, 1, MIB, 0, 0, -1, topics, [], "", None)


def records_in(response: FetchResponse | Later[FetchResponse]) -> dict[str, list[int]]:
    """Base offsets by topic; an answer that has to be waited for is an error."""
    if isinstance(response, Later):
        response = response.result()
    return {
        topic.topic_id.bytes.rstrip(b"\0").decode(): base_offsets(topic.partitions[0].records)
        for topic in response.topics
        if topic.topic_id is not None
    }


def test_what_is_appended_because_of_a_fetch_is_in_its_answer_also_where_nothing_was_when_it_was_read() -> None:
    """A transaction that completes when its markers are committed, say: its coordinator's partition was read before."""

    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            earlier, later = await replicated(node, "earlier"), await replicated(node, "later")
            fetch, caller = fetcher(node), Caller("peer", "here", 9092)
            node.write(later, b"marker")
            later.when_committed(1).map(lambda _: node.write(earlier, b"complete"))
            assert records_in(fetch.start(asking(earlier=0, later=0), caller)) == {"earlier": [], "later": [0]}
            assert not earlier.log.end_offset
            assert records_in(fetch.start(asking(earlier=0, later=1), caller)) == {"earlier": [0], "later": []}
            waiting = fetch.start(asking(earlier=1, later=1), caller)
            assert isinstance(waiting, Later) and not waiting.done

    asyncio.run(life())
