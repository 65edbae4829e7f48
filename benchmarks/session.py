"""Both peers up under one durability, and the load generator let loose on them in turn."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import msgspec
from benchmarks.cases import Case, Scale, by_topic, warm_up
from benchmarks.load.job import Job, LoadFailed, Outcome
from benchmarks.machine import settled
from benchmarks.peers.broker import Cluster, Durability, Peer, PeerUnavailable
from benchmarks.topics import create_topic
from confluent_kafka import KafkaException

from benchmarks import usage

_GENERATOR_S = 180
# For glibc: a generator keeps the memory of its requests for the next ones. To get a megabyte from the kernel for each
# takes an eighth of its processor time.
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
}
_WARM_TOPIC = "bench-warm"


class Session:
    """Brokers run side by side for the whole session, since an idle one costs nearly nothing and a warm JVM is dear.

    A peer that dies is left out of what follows; its last words go to `failed`.
    """

    def __init__(
        self, peers: Sequence[Peer], directory: Path, durability: Durability, failed: Callable[[str], None]
    ) -> None:
        self._peers = peers
        self._directory = directory
        self._durability = durability
        self._stack = ExitStack()
        self._clusters: dict[str, Cluster] = {}
        self._failed = failed

    def __enter__(self) -> Session:
        for peer in self._peers:
            home = self._directory / peer.name
            home.mkdir(parents=True)
            try:
                cluster = self._stack.enter_context(peer.launch(home, self._durability))
                self._clusters[peer.name] = cluster
                cluster.await_listening()
            except PeerUnavailable as problem:
                self._give_up(peer.name, str(problem))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def running(self) -> list[str]:
        return list(self._clusters)

    def prepare(self, peer_name: str, cases: Sequence[Case], scale: Scale) -> None:
        """Topics made, full where a workload reads, and the broker warm."""
        cluster = self._clusters[peer_name]
        replicas = self._durability.replicas
        try:
            # Every broker leads one, so that all are warm.
            create_topic(cluster.address, _WARM_TOPIC, replicas, replicas)
            for job in warm_up(scale):
                generate(_aimed(job, cluster, _WARM_TOPIC))
            for topic, case in by_topic(cases).items():
                create_topic(cluster.address, topic, case.partitions, replicas)
                if case.fill is not None:
                    generate(_aimed(case.fill, cluster, topic))
        except (LoadFailed, KafkaException, PeerUnavailable) as problem:
            self._give_up(peer_name, f"could not be prepared: {problem}")

    def measure(self, peer_name: str, case: Case) -> Outcome | None:
        """None when the measurement failed; why went to `failed`."""
        cluster = self._clusters[peer_name]
        try:
            with settled(case.job.written_bytes() * self._durability.replicas):
                return generate(_aimed(case.job, cluster, case.topic))
        except LoadFailed as problem:
            self._failed(f"{self._durability.value}/{case.name} on {peer_name}: {problem}")
        try:
            cluster.check_alive()
        except PeerUnavailable as problem:
            self._give_up(peer_name, str(problem))
        return None

    def broker_pids(self, peer_name: str) -> list[int]:
        return self._clusters[peer_name].broker_pids

    def peak_rss_mb(self, peer_name: str) -> dict[str, float]:
        """Summed over all processes of a kind."""
        cluster = self._clusters[peer_name]
        found = {"peak RSS MB": usage.peak_rss_bytes(*cluster.broker_pids) / 1e6}
        if cluster.coordinator_pids:
            found["ZooKeeper peak RSS MB"] = usage.peak_rss_bytes(*cluster.coordinator_pids) / 1e6
        return found

    def _give_up(self, peer_name: str, why: str) -> None:
        self._failed(f"{self._durability.value}: {peer_name} is left out: {why}")
        cluster = self._clusters.pop(peer_name, None)
        if cluster is not None:
            cluster.stop()


def _aimed(job: Job, cluster: Cluster, topic: str) -> Job:
    return msgspec.structs.replace(
        job,
        address=cluster.address,
        broker_pids=tuple(cluster.broker_pids),
        coordinator_pids=tuple(cluster.coordinator_pids),
        topic=topic,
    )


def generate(job: Job) -> Outcome:
    """The job in a process of its own. Raises LoadFailed."""
    command = [sys.executable, "-m", "benchmarks.load"]
    try:
        done = subprocess.run(
            command,
            input=msgspec.json.encode(job),
            capture_output=True,
            timeout=_GENERATOR_S,
            check=False,
            env=os.environ | _KEPT_MEMORY,
        )
    except subprocess.TimeoutExpired as slow:
        raise LoadFailed(f"the load generator did not finish within {_GENERATOR_S} s") from slow
    if done.returncode != 0:
        last_words = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise LoadFailed(" / ".join(last_words) or f"the load generator ended with code {done.returncode}")
    return msgspec.json.decode(done.stdout, type=Outcome)
