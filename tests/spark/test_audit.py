"""The audit of a real cluster of three: nothing in a sound one, and each fault that is planted in its files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cluster.brokers import Brokers
from tests.pipelines.planting import flipped, lying, rewritten
from tests.spark.audited_cluster import NODES, TOKEN, audited, audited_cluster, place_of, segments

from penstock.pipelines.audit import Audit
from penstock.pipelines.audit_directory import DirectorySource
from penstock.pipelines.audit_tasks import Source
from penstock.pipelines.core.audit_findings import Fault
from penstock.pipelines.core.audit_report import AuditReport
from penstock.pipelines.core.refusal import PipelineRefused

EVERYONE = "broker 1, broker 2, broker 3"


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with audited_cluster() as running:
        yield running


@pytest.fixture
def copies(brokers: Brokers, tmp_path: Path) -> list[Path]:
    for node in NODES:
        shutil.copytree(brokers.nodes[node].data_dir, tmp_path / str(node))
    return [tmp_path / str(node) for node in NODES]


def of_directories(spark: SparkSession, *directories: Path, topics: tuple[str, ...] = ()) -> AuditReport:
    sources: list[Source] = [DirectorySource(str(directory)) for directory in directories]
    return Audit(spark, sources, dict, frozenset(topics) or None, lambda done, total: None).run()


def test_nothing_is_found_in_a_sound_cluster(spark: SparkSession, brokers: Brokers) -> None:
    report = audited(spark, brokers.nodes[1].bootstrap)
    assert report.findings == []
    topics = {"orders": False, "accounts": True, "events": False, "__transaction_state": True}
    assert {topic for topic, _ in report.partitions} >= set(topics)
    for topic, is_compacted in topics.items():
        outcome = report.partitions[topic, 0]
        assert outcome.replicas == 3 and outcome.comparison is not None
        assert outcome.comparison.by_key == is_compacted
        assert (outcome.comparison.start > 0) == (topic == "events")
        assert outcome.comparison.limit > outcome.comparison.start


def test_each_fault_that_is_planted_under_running_brokers(spark: SparkSession, brokers: Brokers) -> None:
    damaged, gone = segments(brokers, 3, "orders", 1)[1], segments(brokers, 1, "orders", 1)[2]
    differing, newest = segments(brokers, 2, "orders", 0)[1], segments(brokers, 3, "accounts")[-1]
    index = segments(brokers, 1, "orders", 0)[0].with_suffix(".index")
    kept = {path: path.read_bytes() for path in (damaged, gone, differing, newest, index)}
    flipped(damaged)
    gone.unlink()
    offsets = rewritten(differing, 0)
    rewritten(newest, 0)
    lying(index)
    try:
        found = audited(spark, brokers.nodes[1].bootstrap).findings
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert {place_of(finding) for finding in found} == {
        (Fault.DAMAGED_RECORDS, "orders", 1, "broker 3", damaged.name),
        (Fault.MISSING_SEGMENT, "orders", 1, "broker 1", gone.name),
        (Fault.WRONG_OFFSET_INDEX, "orders", 0, "broker 1", index.name),
        (Fault.DIVERGED, "orders", 0, EVERYONE, ""),
        (Fault.DIVERGED, "accounts", 0, EVERYONE, ""),
    }
    (difference,) = (each for each in found if each.fault is Fault.DIVERGED and each.topic == "orders")
    assert difference.first_offset <= offsets[0] and difference.next_offset >= offsets[1]
    assert "broker 1 and broker 3 against broker 2" in difference.text
    (missing,) = (each for each in found if each.fault is Fault.MISSING_SEGMENT)
    assert missing.first_offset == int(gone.stem) and missing.next_offset > missing.first_offset
    assert all(finding.row()["do"] for finding in found)


def test_each_fault_that_is_planted_in_copies_of_directories(spark: SparkSession, copies: list[Path]) -> None:
    logs = [sorted((copy / "topics/orders/partition-1").glob("*.log")) for copy in copies]
    damaged, gone = logs[2][1], logs[0][2]
    differing = sorted((copies[1] / "topics/orders/partition-0").glob("*.log"))[1]
    index = logs[0][0].with_suffix(".index")
    flipped(damaged)
    gone.unlink()
    rewritten(differing, 1)
    lying(index)
    found = of_directories(spark, *copies).findings
    assert {place_of(finding) for finding in found} == {
        (Fault.DAMAGED_RECORDS, "orders", 1, str(copies[2]), damaged.name),
        (Fault.MISSING_SEGMENT, "orders", 1, str(copies[0]), gone.name),
        (Fault.WRONG_OFFSET_INDEX, "orders", 1, str(copies[0]), index.name),
        (Fault.DIVERGED, "orders", 0, ", ".join(map(str, copies)), ""),
    }


def test_what_is_not_there_is_refused(spark: SparkSession, brokers: Brokers, copies: list[Path]) -> None:
    with pytest.raises(PipelineRefused, match=r"audit\.token"):
        audited(spark, brokers.nodes[1].bootstrap, "something-else-that-is-long")
    with pytest.raises(PipelineRefused, match="no topic ordres"):
        of_directories(spark, *copies, topics=("orders", "ordres"))
    with pytest.raises(PipelineRefused, match="named twice"):
        of_directories(spark, copies[0], copies[1], copies[0])


def test_a_broker_that_is_gone_is_told_of_once(spark: SparkSession, brokers: Brokers) -> None:
    """Last, because it stays away."""
    brokers.stop(3)
    report = audited(spark, brokers.nodes[1].bootstrap, TOKEN, "events")
    (finding,) = report.findings
    assert (finding.fault, finding.topic, finding.replica) == (Fault.NOT_AUDITED, "", "broker 3")
    assert report.partitions["events", 0].replicas == 2
