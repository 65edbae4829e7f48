"""Usage that a node counts and writes down: to the message what clients sent and got, whatever goes wrong meanwhile."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer
from kio.schema.types import BrokerId
from kio.static.protocol import RequestPayload
from tests.bad_input import requests
from tests.bad_input.batches import good_batch, tampered
from tests.bad_input.raw import RawConnection, answer_in, packed
from tests.disk.faults import FaultyDisk
from tests.interop.waiting import eventually
from tests.node.usage_topic import Event, Used, check_lives, into_the_hour, read_events, read_records, used

from penstock.cluster.core.messages import Addressed, AppendUsage, Reply, decode_reply, encode
from penstock.disk.local import LocalDisk
from penstock.rpc.core.call import private_call
from penstock.testing import TestNode, node

# So that none ends by itself meanwhile, at a round time as they do.
HOUR_MS = 3_600_000
METERED = {"usage.emit.interval.ms": str(HOUR_MS)}
QUIET = {"log_level": 0}
WAIT_S = 20.0


def produce(running: TestNode, client_id: str, topic: str, count: int, **settings: object) -> None:
    producer = Producer(
        {"bootstrap.servers": running.bootstrap, "client.id": client_id, "linger.ms": 5, **QUIET, **settings}
    )
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        producer.produce(topic, f"{client_id}-{number}", callback=delivered)
    assert producer.flush(WAIT_S) == 0
    assert not failures


def consume(running: TestNode, client_id: str, topic: str, **settings: object) -> int:
    """How many messages there are for a consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **QUIET,
            **settings,
        }
    )
    consumer.subscribe([topic])
    count = 0
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None, "nothing came"
        if message.error() is not None:
            break
        count += 1
    consumer.close()
    return count


def ask(running: TestNode, client_id: str, *asked: RequestPayload) -> list[int]:
    """On one connection; the sizes of the answers."""
    sizes = []
    with RawConnection(running.bootstrap) as connection:
        for number, request in enumerate(asked):
            connection.send_frame(packed(request, number, client_id))
            frame = connection.receive_frame()
            answer_in(frame, request, number)
            sizes.append(len(frame))
    return sizes


def after_next_interval(running: TestNode) -> list[Event]:
    before = len(read_events(running.bootstrap))
    running.advance(hours=1)
    eventually(lambda: len(read_events(running.bootstrap)) > before, "the interval's events are there")
    return read_events(running.bootstrap)


def test_totals_are_those_of_the_clients_across_intervals_and_a_restart(tmp_path: Path) -> None:
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path)) as running:
        assert read_events(running.bootstrap) == []
        produce(running, "acme.web", "orders", 300)
        produce(running, "acme.batch", "orders", 500, **{"enable.idempotence": True, "compression.type": "gzip"})
        produce(running, "bolt", "orders", 70, acks="1")
        produce(running, "bolt", "returns", 5)
        after_next_interval(running)
        produce(running, "bolt", "orders", 30, acks="0")
        assert consume(running, "acme.reader", "orders") == 900
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path)) as running:
        assert consume(running, "corp", "orders") == 900
        produce(running, "bolt", "orders", 11)
        lives = check_lives(after_next_interval(running))
        found = used(event for life in lives for event in life)
    assert len(lives) == 2
    # A clean stop lacks nothing, and says so.
    assert [life[-1].value["last"] for life in lives] == [True, False]
    assert [life[0].value["gap_before"] for life in lives] == [False, False]
    assert found["acme", "orders", "Produce"].messages == 800
    assert found["bolt", "orders", "Produce"].messages == 111
    assert found["bolt", "returns", "Produce"].messages == 5
    assert found["acme", "orders", "Fetch"].messages == found["corp", "orders", "Fetch"].messages == 900
    assert found["acme", "orders", "Fetch"].bytes == found["corp", "orders", "Fetch"].bytes
    assert found["acme", "", "JoinGroup"].requests > 0
    topics = {topic for _, topic, _ in found}
    assert topics == {"orders", "returns", ""}, "internal topics are nobody's usage"


def test_requests_batches_and_bytes_are_counted_to_the_last() -> None:
    batch = good_batch(10)
    mine = tampered(batch, producer_id=7, producer_epoch=0, base_sequence=0)
    with node(METERED, ahead=into_the_hour()) as running:
        ask(running, "acme", requests.create_topic("orders"), requests.create_topic("returns"))
        ask(running, "acme", requests.produce("orders", mine), requests.produce("orders", mine))
        ask(running, "acme", requests.produce("nowhere", batch), requests.produce("orders", tampered(batch, magic=1)))
        ask(running, "acme", requests.produce("__usage", batch))
        # A reader that begins in the middle of a batch gets it whole, and has no use for the first part.
        ask(running, "bolt.1", requests.fetch("orders", 3), requests.fetch("orders", 0))
        ask(running, "bolt.2", requests.fetch("orders", 10), requests.fetch("nowhere"))
        ask(running, "bolt.3", replace(requests.fetch("orders", 0), replica_id=BrokerId(2)))
        found = used(after_next_interval(running))
    assert found["acme", "orders", "Produce"] == Used(10, len(batch), 3)
    assert found["acme", "", "Produce"] == Used(0, 0, 2)
    assert found["acme", "", "CreateTopics"] == Used(0, 0, 2)
    assert found["bolt", "orders", "Fetch"] == Used(17, 2 * len(batch), 3)
    assert found["bolt", "", "Fetch"] == Used(0, 0, 1)


def test_markers_are_no_messages_and_what_was_aborted_was_sent_all_the_same() -> None:
    with node({**METERED, "transaction.state.log.num.partitions": "1"}, ahead=into_the_hour()) as running:
        settings = {"bootstrap.servers": running.bootstrap, "client.id": "acme", "transactional.id": "t", **QUIET}
        producer = Producer(settings)
        producer.init_transactions(WAIT_S)
        for is_commit in (True, False, True):
            producer.begin_transaction()
            for number in range(20):
                producer.produce("orders", str(number))
            if is_commit:
                producer.commit_transaction(WAIT_S)
            else:
                assert producer.flush(WAIT_S) == 0
                producer.abort_transaction(WAIT_S)
        committed = {"isolation.level": "read_committed"}
        assert consume(running, "bolt", "orders", **committed) == 40
        assert consume(running, "corp", "orders", **{"isolation.level": "read_uncommitted"}) == 60
        found = used(after_next_interval(running))
    assert found["acme", "orders", "Produce"].messages == 60
    # What was aborted goes to readers of committed records too, who leave it out.
    assert found["bolt", "orders", "Fetch"].messages == found["corp", "orders", "Fetch"].messages == 60


def test_what_could_not_be_written_is_kept_and_written_once() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(METERED, ahead=into_the_hour(), disk=disk) as running:
        produce(running, "acme", "orders", 10)
        assert len(after_next_interval(running)) == 1
        disk.fail("write", errno.EIO, path_part="__usage")
        produce(running, "acme", "orders", 20)
        running.advance(hours=1)
        produce(running, "acme", "orders", 40)
        # Nothing more is taken meanwhile: the next interval is longer instead.
        running.advance(hours=1)
        running.advance(hours=1)
        assert len(read_events(running.bootstrap)) == 1
        disk.heal()
        running.advance(seconds=1)
        eventually(lambda: len(read_events(running.bootstrap)) == 2, "it is tried again")
        (life,) = check_lives(after_next_interval(running))
        sent = [
            row["messages"]
            for event in life
            for row in event.value["usage"]
            if row["api"] == "Produce" and row["topic"]
        ]
        assert sent == [10, 20, 40]
        assert life[2].value["to_ms"] - life[2].value["from_ms"] >= 2 * HOUR_MS


def test_an_event_whose_answer_came_too_late_is_sent_again_and_there_once() -> None:
    disk = FaultyDisk(LocalDisk())
    with node(METERED, ahead=into_the_hour(), disk=disk) as running:
        produce(running, "acme", "orders", 10)
        after_next_interval(running)
        produce(running, "acme", "orders", 20)
        disk.hold_syncs_of("")
        running.advance(hours=1)
        eventually(lambda: len(disk.being_synced) > 0, "the event is in the log, and waits for the disk")
        # Longer than a leader waits until it is committed; then it is tried again.
        running.advance(seconds=11)
        running.advance(seconds=2)
        disk.syncs_may_run.set()
        eventually(lambda: len(read_events(running.bootstrap)) == 2, "it is committed")
        (life,) = check_lives(after_next_interval(running))
    assert len(life) == 3
    assert used(life)["acme", "orders", "Produce"].messages == 30


def test_what_a_stop_could_not_write_the_next_life_does(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path)) as running:
        # Too short for an event, and so for the topic.
        produce(running, "acme", "orders", 10)
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path), disk=disk) as running:
        eventually(lambda: len(read_events(running.bootstrap)) == 1, "the end of the life before is written")
        produce(running, "acme", "orders", 20)
        disk.fail("write", errno.EIO, path_part="__usage")
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path)) as running:
        eventually(lambda: len(check_lives(read_events(running.bootstrap))) == 2, "here, too")
        produce(running, "acme", "orders", 40)
        lives = check_lives(after_next_interval(running))
    assert [used(life)["acme", "orders", "Produce"].messages for life in lives] == [10, 20, 40]
    assert [life[-1].value["last"] for life in lives] == [True, True, False]


def test_a_stop_on_a_disk_that_fails_leaves_a_gap_that_shows(tmp_path: Path) -> None:
    disk = FaultyDisk(LocalDisk())
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path), disk=disk) as running:
        produce(running, "acme", "orders", 10)
        after_next_interval(running)
        produce(running, "acme", "orders", 20)
        # The topic's log, and what would be kept instead.
        disk.fail("write", errno.EIO, path_part="usage")
    with node(METERED, ahead=into_the_hour(), data_dir=str(tmp_path)) as running:
        ask(running, "acme", requests.metadata())
        first, second = check_lives(after_next_interval(running))
    assert used(first)["acme", "orders", "Produce"].messages == 10
    assert not first[-1].value["last"], "the end of that life is missing"
    assert second[0].value["first"]


def test_client_ids_that_clients_make_up_take_no_more_than_their_room() -> None:
    with node({**METERED, "usage.max.series": "10"}, ahead=into_the_hour()) as running:
        for number in range(30):
            ask(running, f"{number}-{'x' * 1000}.y", requests.metadata())
        found = used(after_next_interval(running))
    told_apart = [tenant for tenant, _, api in found if api == "Metadata" and tenant not in ("other", "raw")]
    assert told_apart == [f"{number}-{'x' * 1000}"[:256] for number in range(10)]
    assert found["other", "other", "Metadata"].requests >= 20


def test_a_node_that_nobody_uses_writes_nothing_and_one_that_is_idle_says_that_it_lives() -> None:
    with node({**METERED, "usage.emit.interval.ms": "10000"}, ahead=into_the_hour()) as running:
        running.advance(minutes=5)
        ask(running, "acme", requests.metadata())
        running.advance(seconds=10)
        eventually(lambda: len(read_events(running.bootstrap)) > 0, "there is a first event")
        running.advance(seconds=10)
        eventually(lambda: len(read_events(running.bootstrap)) > 1, "and a second")
        (life,) = check_lives(read_events(running.bootstrap))
    assert life[0].value["to_ms"] - life[0].value["from_ms"] >= 5 * 60_000
    # At a round time, so that no hour has a part of an interval.
    assert all(event.value["to_ms"] % 10_000 == 0 for event in life)


def test_an_event_that_is_sent_again_is_there_once_and_garbage_is_refused() -> None:
    with node(METERED, ahead=into_the_hour()) as running:
        produce(running, "acme", "orders", 1)
        (event,) = after_next_interval(running)
        record = good_batch(1, value=json.dumps({"usage": []}).encode(), key=b"again")
        batch = tampered(record, producer_id=10**6, producer_epoch=0, base_sequence=0)
        with RawConnection(running.bootstrap) as connection:
            cluster_id = connection.ask(requests.metadata()).cluster_id
            assert not told(connection, cluster_id, AppendUsage(0, batch)).problem
            assert not told(connection, cluster_id, AppendUsage(0, batch)).problem
            assert told(connection, cluster_id, AppendUsage(0, b"garbage")).problem == "CORRUPT_RECORDS"
            assert told(connection, cluster_id, AppendUsage(99, batch)).problem == "UNKNOWN_TOPIC_OR_PARTITION"
        assert [record.key for record in read_records(running.bootstrap)].count(b"again") == 1
        assert event.value["sequence"] == 0


def told(connection: RawConnection, cluster_id: str, message: AppendUsage) -> Reply:
    """As one broker tells another."""
    connection.send_bytes(bytes(private_call(encode(Addressed(cluster_id, 1, message)), decode_reply).frame))
    return decode_reply(connection.receive_frame()[4:])
