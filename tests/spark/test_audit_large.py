"""The audit of ten gigabytes in a cluster that is written to: nothing while all is sound, then each planted fault.

Needs 25 GB of disk.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.faults.cluster import TestCluster
from tests.cluster.faults.network import Loopback
from tests.pipelines.planting import flipped, forgetful, lying, rewritten
from tests.spark.audit_load import ACCOUNTS, EVENTS, ORDERS, PAYMENTS, LightLoad, fill
from tests.spark.audit_process import AuditProcess

from penstock.units import GIB, MIB

Record = Callable[[str, object], None]
TOKEN = "only-auditors-know-it"
SETTINGS = {
    "log.level": "warning",
    "audit.token": TOKEN,
    "segment.bytes": str(64 * MIB),
}
CHECKPOINT_S = 90


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


def planted(cluster: TestCluster) -> dict[str, tuple[Path, Callable[[Path], object], dict[str, object]]]:
    """Where, what, and how it should be told."""
    accounts, payments = ACCOUNTS.name, PAYMENTS.name
    everyone = "broker 1, broker 2, broker 3"
    return {
        "bit flip": (
            files(cluster, 1, payments, 0)[1],
            flipped,
            {"fault": "damaged records", "topic": payments, "partition": 0, "replica": "broker 1"},
        ),
        "missing segment": (
            files(cluster, 2, payments, 1)[0],
            Path.unlink,
            {"fault": "missing segment", "topic": payments, "partition": 1, "replica": "broker 2"},
        ),
        "index lie": (
            files(cluster, 3, payments, 0, ".index")[0],
            lying,
            {"fault": "wrong offset index", "topic": payments, "partition": 0, "replica": "broker 3"},
        ),
        "transaction index lie": (
            files(cluster, 1, payments, 1, ".txnindex")[0],
            forgetful,
            {"fault": "wrong transaction index", "topic": payments, "partition": 1, "replica": "broker 1"},
        ),
        "replica divergence": (
            files(cluster, 3, payments, 1)[1],
            lambda path: rewritten(path, 3),
            {"fault": "replicas differ", "topic": payments, "partition": 1, "replica": everyone},
        ),
        "divergence of a compacted replica": (
            files(cluster, 2, accounts, 0)[0],
            lambda path: rewritten(path, 2),
            {"fault": "replicas differ", "topic": accounts, "partition": 0, "replica": everyone},
        ),
    }


def wait_for_files(cluster: TestCluster) -> None:
    """Retention has taken what it should, compaction has been there, and every log has a checkpoint."""
    deadline = time.monotonic() + CHECKPOINT_S
    while not (
        all(int(files(cluster, node, EVENTS.name, 0)[0].stem) > 0 for node in cluster.brokers)
        and all("-" in files(cluster, node, ACCOUNTS.name, 0)[0].stem for node in cluster.brokers)
        and all((path / "checkpoint").exists() for path in logs_of(cluster))
    ):
        assert time.monotonic() < deadline
        time.sleep(1)


def logs_of(cluster: TestCluster) -> list[Path]:
    topics = {topic.name for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS)}
    found = [path for broker in cluster.brokers.values() for path in broker.data_dir.glob("topics/*/partition-*")]
    return [path for path in found if path.parent.name in topics]


def told(audit: AuditProcess) -> list[dict[str, Any]]:
    keys = ("severity", "fault", "topic", "partition", "replica", "file", "first_offset", "next_offset", "what")
    return [{key: row[key] for key in keys} for row in audit.outcome["findings"]]


@pytest.mark.torture("audit")
def test_ten_gigabytes(cluster: TestCluster, record_property: Record) -> None:
    began = time.monotonic()
    for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS):
        cluster.create_topic(topic.name, topic.partitions, 3, topic.config)
        fill(cluster.bootstrap, topic)
    record_property("filling_seconds", round(time.monotonic() - began, 1))
    with LightLoad(cluster.bootstrap) as load:
        wait_for_files(cluster)
        clean = AuditProcess(cluster.bootstrap, TOKEN).run()
        record_property("throttle_mib_per_second_of_each_node", 50)
        record_property("clean", {key: value for key, value in clean.outcome.items() if key != "findings"})
        record_property("clean_findings", told(clean))
        record_property("peak_mib_of_driver_jvm_and_workers", clean.peak_mib)
        record_property("broker_peak_mib", {node: peak_mib(each.pid) for node, each in cluster.brokers.items()})
        record_property("written_meanwhile", load.written)
        assert (clean.exit_code, clean.outcome["findings"]) == (0, [])
        assert clean.outcome["bytes"] >= 10 * GIB
        found = {}
        for name, (path, plant, expected) in planted(cluster).items():
            kept = path.read_bytes()
            plant(path)
            audit = AuditProcess(cluster.bootstrap, TOKEN, str(expected["topic"])).run()
            path.write_bytes(kept)
            found[name] = {"file": path.name, "seconds": audit.outcome["seconds"], "told": told(audit)}
            assert audit.exit_code == 1 and audit.outcome["findings"], name
            for row in audit.outcome["findings"]:
                assert {key: row[key] for key in expected} == expected, (name, row)
                assert row["do"] and row["file"] in (path.name, None)
        record_property("planted", found)
        audit = AuditProcess(cluster.bootstrap, TOKEN, PAYMENTS.name)
        with audit:
            time.sleep(8)
            restarted(cluster, 2)
        record_property("told_while_a_broker_restarted", told(audit))
        assert not [row for row in audit.outcome["findings"] if row["severity"] == "error"]
    record_property("a_segment_lost_before_a_start", lost_before_a_start(cluster))


def restarted(cluster: TestCluster, node: int, meanwhile: Callable[[], object] = lambda: None) -> None:
    broker = cluster.brokers[node]
    broker.terminate()
    broker.wait()
    meanwhile()
    broker.launch()
    for topic in (ORDERS, ACCOUNTS, PAYMENTS, EVENTS):
        cluster.wait_until_whole(topic.name)


def lost_before_a_start(cluster: TestCluster) -> list[dict[str, Any]]:
    """Its node does not fetch it again, and knows that it is missing; so does the audit."""
    path = files(cluster, 1, PAYMENTS.name, 0)[1]
    restarted(cluster, 1, path.unlink)
    audit = AuditProcess(cluster.bootstrap, TOKEN, PAYMENTS.name).run()
    rows = told(audit)
    assert {(row["fault"], row["partition"], row["replica"]) for row in rows} == {("missing offsets", 0, "broker 1")}
    assert rows[0]["first_offset"] == int(path.stem)
    return rows


def peak_mib(pid: int) -> int:
    """Of a process and what it has started, as the kernel counts resident pages of each."""
    pids, peak_kib = [pid], 0
    while pids:
        each = pids.pop()
        status = Path(f"/proc/{each}/status").read_text()
        peak_kib += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
        pids += [int(child) for child in Path(f"/proc/{each}/task/{each}/children").read_text().split()]
    return peak_kib // 1024
