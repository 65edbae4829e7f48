"""When a fetch is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection
from tests.disk.cachestat import has_cachestat
from tests.disk.page_cache import PageCacheDisk

from penstock.broker.apis.fetch import ENOUGH_BYTES
from penstock.testing import node
from penstock.units import MIB

# Longer than the connection waits for an answer.
MAX_WAIT_MS = 60_000


def test_a_fetch_of_nothing_is_answered_at_once() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        opening = replace(requests.fetch("orders"), session_epoch=i32(0))
        session_id = connection.ask(opening).session_id
        assert session_id > 0
        closing = replace(opening, session_id=session_id, session_epoch=i32(-1), topics=())
        answer = connection.ask(replace(closing, max_wait=requests.timeout(MAX_WAIT_MS)))
        assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, ())


def test_an_answer_holds_a_megabyte_unless_the_client_insists_on_more() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(requests.create_topic("orders")).topics[0].error_code == 0
        for _ in range(40):
            assert connection.ask(requests.produce("orders", good_batch(value=bytes(MIB // 4 - 1024))))
        sizes = []
        for min_bytes in (1, 8 * MIB):
            poll = requests.fetch("orders", min_bytes=min_bytes, max_wait_ms=MAX_WAIT_MS)
            sizes.append(len(connection.ask(poll).responses[0].partitions[0].records))
        assert ENOUGH_BYTES * 3 // 4 < sizes[0] <= ENOUGH_BYTES
        assert sizes[1] >= 8 * MIB


def test_an_answer_holds_more_if_it_stays_in_files_but_not_more_than_the_client_allows() -> None:
    topics = [f"topic-{number}" for number in range(6)]
    with node() as server, RawConnection(server.bootstrap) as connection:
        for topic in topics:
            assert connection.ask(requests.create_topic(topic)).topics[0].error_code == 0
            assert connection.ask(requests.produce(topic, good_batch(value=bytes(MIB // 2))))
        rows = tuple(requests.fetch(topic).topics[0] for topic in topics)
        sizes = []
        for max_bytes in (50 * MIB, 2 * MIB, MIB):
            answer = connection.ask(replace(requests.fetch(topics[0]), max_bytes=i32(max_bytes), topics=rows))
            sizes.append(sum(len(row.partitions[0].records or b"") for row in answer.responses))
    assert (ENOUGH_BYTES if has_cachestat() else ENOUGH_BYTES // 2) < sizes[0] <= 4 * ENOUGH_BYTES
    assert sizes[1] <= 2 * MIB and sizes[2] <= MIB


@pytest.mark.parametrize("happens", ["eviction", "deletion"])
def test_what_was_to_be_sent_from_a_file_may_be_gone_when_another_partition_has_been_waited_for(happens: str) -> None:
    disk = PageCacheDisk()
    with node(disk=disk) as server, RawConnection(server.bootstrap) as connection:
        for topic in ("here", "away"):
            created = connection.ask(requests.create_topic(topic, configs={"segment.bytes": str(MIB)}))
            assert created.topics[0].error_code == 0
            for _ in range(3):
                assert connection.ask(requests.produce(topic, good_batch(value=bytes(MIB // 2))))
        here, away = [f"{server.data_dir}/topics/{topic}/partition-0/{0:020}.log" for topic in ("here", "away")]
        rows = tuple(requests.fetch(topic).topics[0] for topic in ("here", "away"))

        def while_waiting(path: str) -> None:
            if path == away:
                disk.when_read = lambda path: None
                disk.put_out(here, 0, MIB)
                if happens == "deletion":
                    with RawConnection(server.bootstrap) as another:
                        another.ask(
                            DeleteTopicsRequest(topic_names=(TopicName("here"),), timeout=requests.timeout(9000))
                        )

        disk.put_out(away, 0, MIB)
        disk.when_read = while_waiting
        answer = connection.ask(replace(requests.fetch("here"), topics=rows))
        found = {row.topic: row.partitions[0] for row in answer.responses}
        assert len(found["away"].records) > MIB // 2
        if happens == "eviction":
            assert len(found["here"].records) > MIB // 2
            assert 0 not in disk.missing[here], "it was read again"
        else:
            assert (found["here"].error_code, found["here"].records or b"") == (0, b"")


def test_a_fetch_that_insists_on_nearly_all_that_it_may_get_does_not_wait_for_what_is_there() -> None:
    topics = [f"topic-{number}" for number in range(10)]
    with node() as server, RawConnection(server.bootstrap) as connection:
        for topic in topics:
            assert connection.ask(requests.create_topic(topic)).topics[0].error_code == 0
            assert connection.ask(requests.produce(topic, good_batch(value=bytes(9_900))))
        poll = requests.fetch(topics[0], min_bytes=90_000, max_wait_ms=MAX_WAIT_MS)
        rows = tuple(requests.fetch(topic).topics[0] for topic in topics)
        answer = connection.ask(replace(poll, max_bytes=i32(100_000), topics=rows))
        assert sum(len(row.partitions[0].records or b"") for row in answer.responses) >= 90_000


def test_a_first_batch_larger_than_all_that_was_asked_for_leaves_nothing_for_the_others() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        for topic in ("large", "rolled"):
            created = connection.ask(requests.create_topic(topic, configs={"segment.bytes": str(MIB)}))
            assert created.topics[0].error_code == 0
        for topic, size in (("large", MIB // 2), ("rolled", MIB // 2), ("rolled", MIB // 2), ("rolled", MIB // 2)):
            assert connection.ask(requests.produce(topic, good_batch(value=bytes(size))))
        both = [requests.fetch(topic, max_bytes=10_000).topics[0] for topic in ("large", "rolled")]
        for max_bytes in (10_000, 0, -1):
            poll = replace(requests.fetch("large", max_bytes=10_000), max_bytes=i32(max_bytes), topics=tuple(both))
            with RawConnection(server.bootstrap) as another:
                large, rolled = another.ask(poll).responses
            assert len(large.partitions[0].records) > MIB // 2
            assert (rolled.partitions[0].error_code, not rolled.partitions[0].records) == (0, True)


def test_without_a_session_no_partition_waits_until_another_is_read_to_its_end() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        topics = ("first", "second", "third")
        for topic in topics:
            assert connection.ask(requests.create_topic(topic)).topics[0].error_code == 0
            for _ in range(2):
                assert connection.ask(requests.produce(topic, good_batch(value=bytes(MIB * 3 // 4))))
        asked = tuple(requests.fetch(topic).topics[0] for topic in topics)
        served = []
        for _ in range(6):
            answer = connection.ask(replace(requests.fetch("first"), topics=asked))
            served += [topic.topic for topic in answer.responses if topic.partitions[0].records]
        assert served[:3] == served[3:6] and len(set(served[:3])) == 3


def test_an_answer_names_a_topic_once_whoever_is_served_first() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        asked = []
        for topic in ("first", "second"):
            assert connection.ask(requests.create_topic(topic, partitions=2)).topics[0].error_code == 0
            rows = requests.fetch(topic).topics[0]
            both = (rows.partitions[0], replace(rows.partitions[0], partition=i32(1)))
            asked.append(replace(rows, partitions=both))
        assert connection.ask(requests.produce("first", good_batch()))
        for _ in range(2):
            answer = connection.ask(replace(requests.fetch("first"), topics=tuple(asked)))
            assert sorted(topic.topic for topic in answer.responses) == ["first", "second"]
            assert all(len(topic.partitions) == 2 for topic in answer.responses)
