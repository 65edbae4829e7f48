from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coordination.stores import with_store

from penstock.coordination import paths
from penstock.coordination.embedded import EmbeddedStore
from penstock.coordination.interface import Create
from penstock.coordination.paths import PartitionState, TopicState
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError

broker_ids = st.integers(0, 2**31 - 1)
partitions = st.builds(
    PartitionState,
    leader=st.integers(-1, 2**31 - 1),
    leader_epoch=st.integers(0, 2**31 - 1),
    isr=st.lists(broker_ids, max_size=3).map(tuple),
    replicas=st.lists(broker_ids, max_size=3).map(tuple),
)


@given(partitions)
def test_a_partition_is_read_back(partition: PartitionState) -> None:
    assert paths.PARTITION.decode(paths.PARTITION.encode(partition), "/topics/a/0") == partition


def test_the_form_on_disk_stays() -> None:
    """Nodes outlive the release that wrote them."""
    stored = (
        b'{"leader":1,"leader_epoch":2,"isr":[1],"replicas":[1,3],'
        b'"eligible_leaders":[3],"last_known_leader":3,"adding":[],"removing":[],'
        b'"min_insync_replicas":1,"last_known_eligible_leaders":[],"throttled_rate":0}'
    )
    partition = PartitionState(1, 2, (1,), (1, 3), (3,), 3)
    assert paths.PARTITION.decode(stored, "/topics/a/0") == partition
    assert paths.PARTITION.encode(partition) == stored
    for later in (b',"throttled_rate":0', b',"min_insync_replicas":1,"last_known_eligible_leaders":[]'):
        assert later in stored
        stored = stored.replace(later, b"")
        assert paths.PARTITION.decode(stored, "/topics/a/0") == partition
    topic = b'{"topic_id":"00000000-0000-0000-0000-000000000005","partition_count":2,"generation":7}'
    assert paths.TOPIC.decode(topic, "/topics/a") == TopicState(UUID(int=5), 2, 7)
    assert paths.TOPIC.encode(TopicState(UUID(int=5), 2, 7)) == topic
    assert paths.CONFIGS.decode(b'{"values":{"retention.ms":"5"}}', "").values == {"retention.ms": "5"}
    assert paths.PRODUCER_ID.decode(b'{"next_producer_id":7}', "").next_producer_id == 7
    assert paths.CLUSTER.decode(b'{"cluster_id":"x"}', "").cluster_id == "x"


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"topic_id":5,"partition_count":1,"generation":1}'])
def test_what_is_not_a_topic_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(PenstockError, match="/topics/orders"):
        paths.TOPIC.decode(data, paths.topic_path("orders"))


def test_everything_can_be_created_once_the_parents_are_there(tmp_path: Path) -> None:
    async def use(store: EmbeddedStore) -> None:
        await paths.ensure_parents(store)
        await paths.ensure_parents(store)
        places = [paths.topic_path("t"), paths.topic_config_path("t")]
        places += [paths.PRODUCER_IDS, paths.CLUSTER_ID]
        assert await store.commit([Create(path, b"{}") for path in places]) == [0] * 4

    with_store(LocalDisk(), str(tmp_path), use)
