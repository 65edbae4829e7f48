"""penstock.testing as its users meet it."""

import time
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import penstock.testing
from penstock.errors import PenstockError
from penstock.testing import TestNode


def test_the_fixture_is_a_node_that_answers(penstock_node: TestNode) -> None:
    producer = Producer({"bootstrap.servers": penstock_node.bootstrap})
    producer.produce("greetings", b"hello")
    assert producer.flush(10) == 0
    assert penstock_node.metric("penstock_log_end_offset", topic="greetings", partition="0") == 1
    with urllib.request.urlopen(f"{penstock_node.http}/health", timeout=10) as answer:
        assert b"ready" in answer.read()


def test_time_goes_forward_when_the_test_says_so(penstock_node: TestNode) -> None:
    before = penstock_node.now_ms()
    penstock_node.advance(days=3, hours=1)
    assert penstock_node.now_ms() - before >= (3 * 24 + 1) * 60 * 60 * 1000
    producer = Producer({"bootstrap.servers": penstock_node.bootstrap, "log_level": 0})
    producer.produce("late", b"x", timestamp=penstock_node.now_ms())
    assert producer.flush(10) == 0
    assert penstock_node.now_ms() > time.time() * 1000 + 3 * 24 * 60 * 60 * 1000


def test_data_that_was_given_a_place_is_there_for_the_next_node(tmp_path: Path) -> None:
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce("kept", b"x")
        assert producer.flush(10) == 0
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
        assert consumer.get_watermark_offsets(TopicPartition("kept", 0), timeout=10) == (0, 1)
        consumer.close()


def test_time_does_not_go_back_for_data_of_a_node_that_was_ahead(tmp_path: Path) -> None:
    with penstock.testing.node(data_dir=str(tmp_path)) as node:
        node.advance(days=3)
        before = node.now_ms()
    with penstock.testing.node(data_dir=str(tmp_path), ahead=timedelta(days=3)) as node:
        assert 0 <= node.now_ms() - before < 60_000


def test_two_nodes_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        penstock.testing.node(data_dir=str(tmp_path)),
        pytest.raises(PenstockError, match="in use"),
        penstock.testing.node(data_dir=str(tmp_path)),
    ):
        pass


def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"did you mean retention\.ms"), penstock.testing.node({"retention.m": "1"}):
        pass
