"""The audit of ten gigabytes in a cluster that is written to: nothing while all is sound, then each planted fault.

Needs 25 GB of disk.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.cluster.faults.cluster import HEAL_S, TestCluster
from tests.cluster.faults.network import Loopback
from tests.interop.waiting import eventually
from tests.pipelines.planting import flipped, forgetful, lying, rewritten
from tests.spark.audit_load import ACCOUNTS, EVENTS, ORDERS, PAYMENTS, LightLoad, fill
from tests.spark.audit_process import AuditProcess
from tests.spark.audited_cluster import TOKEN, audited

from penstock.config.address import Address
from penstock.pipelines.audit import Audit
from penstock.pipelines.audit_cluster import AuditedCluster
from penstock.pipelines.core.audit_findings import Fault, Finding, Severity
from penstock.pipelines.core.audit_report import AuditReport
from penstock.units import GIB, MIB

Record = Callable[[str, object], None]
SETTINGS = {
    "log.level": "warning",
    "audit.token": TOKEN,
    "segment.bytes": str(64 * MIB),
}
SETTLED_S = 300


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Emptied whatever happens: pytest would keep it for days."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture
def cluster(directory: Path) -> Iterator[TestCluster]:
    cluster = TestCluster(Loopback(), directory, brokers=3, zookeepers=1, settings=SETTINGS)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def files(cluster: TestCluster, node: int, topic: str, partition: int, suffix: str = ".log") -> list[Path]:
    """With something in them; the last is in use."""
    found = (cluster.brokers[node].data_dir / "topics" / topic / f"partition-{partition}").glob(f"*{suffix}")
    return sorted(path for path in found if path.stat().st_size)


class Planted(NamedTuple):
    """What is done to which file of which broker, and how it should be told."""

    fault: Fault
    plant: Callable[[Path], object]
    node: int
    topic: str
    partition: int
    place: int = 0
    suffix: str = ".log"

    @property
    def replica(self) -> str:
        return EVERYONE if self.fault is Fault.DIVERGED else f"broker {self.node}"

    def path(self, cluster: TestCluster) -> Path:
        """Now: compaction gives files other names, and leaves some with hardly a record, where there is no place."""
        found = files(cluster, self.node, self.topic, self.partition, self.suffix)
        return [path for path in found if self.suffix != ".log" or path.stat().st_size > MIB][self.place]


EVERYONE = "broker 1, broker 2, broker 3"
PLANTED = {
    "bit flip": Planted(Fault.DAMAGED_RECORDS, flipped, 1, PAYMENTS.name, 0, 1),
    "missing segment": Planted(Fault.MISSING_SEGMENT, Path.unlink, 2, PAYMENTS.name, 1),
    "index lie": Planted(Fault.WRONG_OFFSET_INDEX, lying, 3, PAYMENTS.name, 0, 0, ".index"),
    "transaction index lie": Planted(Fault.WRONG_TRANSACTION_INDEX, forgetful, 1, PAYMENTS.name, 1, 0, ".txnindex"),
    "replica divergence": Planted(Fault.DIVERGED, lambda path: rewritten(path, 3), 3, PAYMENTS.name, 1, 1),
    "compacted replica": Planted(Fault.DIVERGED, lambda path: rewritten(path, 2), 2, ACCOUNTS.name, 0),
}


def wait_for_files(cluster: TestCluster) -> None:
    """Retention has taken what it should, compaction has been there, and every log has a checkpoint."""
    eventually(
        lambda: (
            all(int(files(cluster, node, EVENTS.name, 0)[0].stem) > 0 for node in cluster.brokers)
            and all("-" in files(cluster, node, ACCOUNTS.name, 0)[0].stem for node in cluster.brokers)
            and all((path / "checkpoint").exists() for path in logs_of(cluster))
        ),
        "files as retention, compaction and checkpoints leave them",
        timeout_s=SETTLED_S,
    )


def logs_of(cluster: TestCluster) -> list[Path]:
    topics = {topic.name for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS)}
    found = [path for broker in cluster.brokers.values() for path in broker.data_dir.glob("topics/*/partition-*")]
    return [path for path in found if path.parent.name in topics]


def shown(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [{key: value for key, value in finding.row().items() if key != "do"} for finding in findings]


@pytest.mark.torture("audit")
def test_ten_gigabytes(cluster: TestCluster, record_property: Record, request: pytest.FixtureRequest) -> None:
    began = time.monotonic()
    for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS):
        cluster.create_topic(topic.name, topic.partitions, 3, topic.config)
        fill(cluster.bootstrap, topic)
    record_property("filling_seconds", round(time.monotonic() - began, 1))
    # Before the load: a log that is written to now and then has its first checkpoint after 128 MiB.
    wait_for_files(cluster)
    with LightLoad(cluster.bootstrap) as load:
        clean = AuditProcess(cluster.bootstrap, TOKEN).run()
        record_property("throttle_mib_per_second_of_each_node", 50)
        record_property("clean", {key: value for key, value in clean.outcome.items() if key != "findings"})
        record_property("clean_findings", clean.outcome["findings"])
        record_property("peak_mib_of_driver_jvm_and_workers", clean.peak_mib)
        record_property("broker_peak_mib", {node: peak_mib(each.pid) for node, each in cluster.brokers.items()})
        record_property("written_meanwhile", load.written)
        assert (clean.exit_code, clean.outcome["findings"]) == (0, [])
        assert clean.outcome["bytes"] >= 10 * GIB
        spark = request.getfixturevalue("spark")
        found = {name: found_of(spark, cluster, fault) for name, fault in PLANTED.items()}
        record_property("planted", found)
        report = audited_over_a_restart(spark, cluster)
        record_property("found_while_a_broker_restarted", shown(report.findings))
        assert not [each for each in report.findings if each.fault.severity is Severity.ERROR]
    record_property("a_segment_lost_before_a_start", lost_before_a_start(spark, cluster))


def found_of(spark: SparkSession, cluster: TestCluster, planted: Planted) -> dict[str, object]:
    path = planted.path(cluster)
    kept, began = path.read_bytes(), time.monotonic()
    planted.plant(path)
    report = audited(spark, cluster.brokers[1].bootstrap, TOKEN, planted.topic)
    path.write_bytes(kept)
    expected = planted.fault, planted.topic, planted.partition, planted.replica
    assert report.findings
    for finding in report.findings:
        assert (finding.fault, finding.topic, finding.partition, finding.replica) == expected
        assert finding.file in (path.name, "") and finding.row()["do"]
    seconds = round(time.monotonic() - began, 1)
    return {"file": path.name, "seconds": seconds, "found": shown(report.findings)}


def audited_over_a_restart(spark: SparkSession, cluster: TestCluster) -> AuditReport:
    """A broker goes when some of it is read, and comes back."""
    audited_cluster = AuditedCluster((Address.parse(cluster.brokers[1].bootstrap),), TOKEN)
    has_begun = threading.Event()

    def told(done_bytes: int, total_bytes: int) -> None:
        if done_bytes:
            has_begun.set()

    audit = Audit(spark, audited_cluster.sources, audited_cluster.placement, frozenset({PAYMENTS.name}), told)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(audit.run)
        assert has_begun.wait(HEAL_S)
        restarted(cluster, 2)
        return running.result()


def restarted(cluster: TestCluster, node: int, meanwhile: Callable[[], object] = lambda: None) -> None:
    broker = cluster.brokers[node]
    broker.terminate()
    broker.wait()
    meanwhile()
    broker.launch()
    for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS):
        cluster.wait_until_whole(topic.name)


def lost_before_a_start(spark: SparkSession, cluster: TestCluster) -> list[dict[str, object]]:
    """Its node does not fetch it again, and knows that it is missing; so does the audit."""
    path = files(cluster, 1, PAYMENTS.name, 0)[1]
    restarted(cluster, 1, path.unlink)
    found = audited(spark, cluster.brokers[1].bootstrap, TOKEN, PAYMENTS.name).findings
    assert {(each.fault, each.partition, each.replica) for each in found} == {(Fault.MISSING_OFFSETS, 0, "broker 1")}
    assert found[0].first_offset == int(path.stem)
    return shown(found)


def peak_mib(pid: int) -> int:
    """Of a process and what it has started, as the kernel counts resident pages of each."""
    pids, peak_kib = [pid], 0
    while pids:
        each = pids.pop()
        status = Path(f"/proc/{each}/status").read_text()
        peak_kib += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
        pids += [int(child) for child in Path(f"/proc/{each}/task/{each}/children").read_text().split()]
    return peak_kib // 1024
