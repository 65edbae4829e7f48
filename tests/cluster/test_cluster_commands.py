"""`penstock cluster` against the cluster that all tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.cluster.faults.cluster import TestCluster
from typer.testing import CliRunner, Result

from penstock.cli.main import app

WAIT_S = 30


class Shell:
    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster

    def run(self, *arguments: str, node_id: int | None = None) -> Result:
        bootstrap = self._cluster.bootstrap if node_id is None else self._cluster.brokers[node_id].bootstrap
        return CliRunner().invoke(app, ["cluster", *arguments], env={"PENSTOCK_BOOTSTRAP": bootstrap})

    def json(self, *arguments: str, node_id: int | None = None) -> Any:
        result = self.run(*arguments, "--output", "json", node_id=node_id)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def shell(cluster: TestCluster) -> Shell:
    return Shell(cluster)


@pytest.fixture
def admin(cluster: TestCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


@pytest.fixture
def lopsided(cluster: TestCluster, admin: AdminClient) -> Iterator[str]:
    """A topic whose replicas are all on two brokers, led by one of them."""
    name = "lopsided"
    (made,) = admin.create_topics([NewTopic(name, 6, replica_assignment=[[1, 2]] * 6)]).values()
    made.result(WAIT_S)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for partition in range(6):
        producer.produce(name, b"x" * 100_000, partition=partition)
    assert producer.flush(WAIT_S) == 0
    yield name
    (deleted,) = admin.delete_topics([name]).values()
    deleted.result(WAIT_S)


def test_any_broker_says_how_the_cluster_is(cluster: TestCluster, shell: Shell, lopsided: str) -> None:
    controller = cluster.controller()
    assert controller is not None
    for node_id in cluster.brokers:
        found = shell.json("status", node_id=node_id)
        assert found["controller"] == controller.node_id
        brokers = {row["node_id"]: row for row in found["brokers"]}
        assert [(row["live"], row["draining"], row["rack"]) for row in brokers.values()] == [
            (True, False, f"rack-{each}") for each in (1, 2, 3)
        ]
        assert brokers[1]["size_bytes"] >= 600_000
        assert brokers[1]["leaders"] >= 6
        assert brokers[2]["replicas"] >= 6
        assert found["without_leader"] == {"count": 0, "partitions": []}
    text = shell.run("status").stdout
    assert "BROKER" in text
    assert "rack-2" in text


def test_a_rebalance_is_shown_asked_for_and_done(cluster: TestCluster, shell: Shell, lopsided: str) -> None:
    planned = shell.json("rebalance", "--dry-run")
    assert not planned["done"]
    assert planned["size_bytes"] > 0
    assert {tuple(view.replicas) for view in cluster.partitions(lopsided)} == {(1, 2)}

    refused = shell.run("rebalance")
    assert refused.exit_code == 1
    assert "--yes" in refused.stderr
    assert {tuple(view.replicas) for view in cluster.partitions(lopsided)} == {(1, 2)}

    done = shell.json("rebalance", "--yes")
    assert done["done"]
    assert done["refused"] == []
    cluster.wait_until_whole(lopsided)
    moved = {view.partition: view.replicas for view in cluster.partitions(lopsided)}
    assert all(
        moved[move["partition"]] == tuple(move["replicas"]) for move in done["moves"] if move["topic"] == lopsided
    )
    assert any(3 in replicas for replicas in moved.values())
    assert shell.json("rebalance", "--yes")["moves"] == []


def test_leaders_become_even_without_copying(cluster: TestCluster, shell: Shell, lopsided: str) -> None:
    done = shell.json("leaders")
    assert done["size_bytes"] == 0
    cluster.wait_until_whole(lopsided)
    views = cluster.partitions(lopsided)
    assert all(set(view.replicas) == {1, 2} for view in views)
    assert all(view.leader == view.replicas[0] for view in views)
    assert {view.leader for view in views} == {1, 2}


def test_a_drain_that_would_do_harm_is_refused_with_every_reason(shell: Shell, admin: AdminClient) -> None:
    (made,) = admin.create_topics([NewTopic("everywhere", 2, 3)]).values()
    made.result(WAIT_S)
    result = shell.run("drain", "2", "--yes")
    assert result.exit_code == 1
    assert "everywhere-0: its replication factor is 3" in result.stderr
    assert "everywhere-1: its replication factor is 3" in result.stderr
    assert not any(row["draining"] for row in shell.json("status")["brokers"])
    unknown = shell.run("drain", "9", "--yes")
    assert unknown.exit_code == 1
    assert "broker 9 does not exist" in unknown.stderr
    (deleted,) = admin.delete_topics(["everywhere"]).values()
    deleted.result(WAIT_S)
