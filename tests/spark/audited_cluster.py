"""A cluster of three that is worth an audit, in small: plain, compacted and short-lived topics, and transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession
from tests.cluster.brokers import Brokers, cluster_on, created, eventually

from penstock.config.address import Address
from penstock.pipelines.audit import Audit
from penstock.pipelines.audit_cluster import AuditedCluster
from penstock.pipelines.core.audit_findings import Fault, Finding
from penstock.pipelines.core.audit_report import AuditReport
from penstock.testing.zookeeper import zookeeper
from penstock.units import GIB, KIB

TOKEN = "only-auditors-know-it"
NODES = (1, 2, 3)
SETTINGS = {
    "audit.token": TOKEN,
    "audit.bytes.per.second": str(GIB),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
SMALL_SEGMENTS = {"segment.bytes": str(24 * KIB)}
COMPACTED = {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
SHORT_LIVED = {**SMALL_SEGMENTS, "retention.bytes": str(60 * KIB), "file.delete.delay.ms": "0"}


@contextmanager
def audited_cluster() -> Iterator[Brokers]:
    """One replica of `accounts` is compacted, the others are not; of `events` retention has taken what it should."""
    with zookeeper() as server, cluster_on(server) as running:
        running.start(*NODES, **SETTINGS)
        created(
            running.admin(1),
            NewTopic("orders", 2, 3, config=SMALL_SEGMENTS),
            NewTopic("accounts", 1, 3, config=COMPACTED),
            NewTopic("events", 1, 3, config=SHORT_LIVED),
        )
        _fill(running.nodes[1].bootstrap)
        eventually(lambda: all(len(segments(running, node, "accounts")) > 3 for node in NODES))
        running.nodes[2].advance(seconds=16)
        eventually(lambda: any("-" in path.stem for path in segments(running, 2, "accounts")))
        for node in NODES:
            running.nodes[node].advance(seconds=31)
        eventually(lambda: all((path.parent / "checkpoint").exists() for path in _all_segments(running)))
        eventually(lambda: all(int(segments(running, node, "events")[0].stem) > 0 for node in NODES))
        yield running


def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "orders", "linger.ms": 1, "batch.size": 8 * KIB}
    producer = Producer(settings)
    producer.init_transactions(30)
    for number in range(5):
        producer.begin_transaction()
        for place in range(160):
            producer.produce("orders", b"%06d" % place * 40, key=b"%d" % place, partition=place % 2)
            producer.produce("accounts", b"%06d" % number * 60, key=b"account %d" % (place % 70 + number))
            producer.produce("events", b"%06d" % place * 60)
        producer.flush(30)
        if number == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    # A successor begins when the last markers are written: nothing is appended behind this.
    Producer(settings).init_transactions(30)


def segments(brokers: Brokers, node: int, topic: str, partition: int = 0) -> list[Path]:
    directory = Path(brokers.nodes[node].data_dir) / "topics" / topic / f"partition-{partition}"
    return sorted(directory.glob("*.log"))


def _all_segments(brokers: Brokers) -> list[Path]:
    topics = ("orders", "accounts", "events")
    return [path for node in NODES for topic in topics for path in segments(brokers, node, topic)]


def audited(spark: SparkSession, bootstrap: str, token: str = TOKEN, *topics: str) -> AuditReport:
    cluster = AuditedCluster((Address.parse(bootstrap),), token)
    named = frozenset(topics) if topics else None
    return Audit(spark, cluster.sources, cluster.placement, named, lambda done, total: None).run()


def place_of(finding: Finding) -> tuple[Fault, str, int, str, str]:
    return finding.fault, finding.topic, finding.partition, finding.replica, finding.file
