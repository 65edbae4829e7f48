"""Apache Kafka, fetched with Maven and run as its own scripts run it: KRaft, combined nodes, a heap of 1 GB each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.broker import Broker, Cluster, Durability, PeerUnavailable, cache_directory, free_ports
from benchmarks.peers.trio import Trio

VERSION = "4.3.1"
_FETCH_S = 600
_FORMAT_S = 60
# Any well-formed id will do: the storage is used once.
_CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"
# The garbage collector settings of Kafka's own start script.
_JVM = [
    *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
]
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>bench-kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
# As delivered, but for the addresses.
_PROPERTIES = """process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
"""
# One node has one replica of everything.
_LONE_PROPERTIES = """offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Kafka:
    name = "kafka"

    def __init__(self) -> None:
        self._jars = cache_directory() / f"kafka-{VERSION}"

    def prepare(self) -> None:
        for tool in ("java", "mvn"):
            if shutil.which(tool) is None:
                raise PeerUnavailable(f"Apache Kafka needs `{tool}`, which is not on the PATH")
        if not self._complete_marker().exists():
            self._fetch()

    def launch(self, directory: Path, durability: Durability) -> Cluster:
        ports = free_ports(2 * durability.replicas)
        ports, controller_ports = ports[: durability.replicas], ports[durability.replicas :]
        voters = ",".join(f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(controller_ports))
        more = "" if durability.replicas > 1 else _LONE_PROPERTIES
        more += "".join(f"{line}\n" for line in _flush_lines(durability))
        # All of them formatted before the first starts: a start takes both processors.
        homes = []
        for index, (port, controller_port) in enumerate(zip(ports, controller_ports, strict=True)):
            home = directory / f"node-{index + 1}"
            home.mkdir()
            facts = {"node_id": index + 1, "port": port, "controller_port": controller_port, "voters": voters}
            (home / "server.properties").write_text(_PROPERTIES.format(**facts, data=home / "data") + more)
            self._format(home / "server.properties")
            homes.append(home)
        brokers = [self._launch_one(home, port) for home, port in zip(homes, ports, strict=True)]
        return brokers[0] if len(brokers) == 1 else Trio(brokers)

    def _launch_one(self, home: Path, port: int) -> Broker:
        arguments = ["java", *_JVM, "-cp", self._class_path(), "kafka.Kafka", str(home / "server.properties")]
        return Broker(self.name, arguments, port, home / "log")

    def settings_of(self, durability: Durability) -> str:
        return ", ".join(_flush_lines(durability)) or "as delivered (the operating system flushes)"

    def version(self) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
        return f"{VERSION}, {java[0] if java else 'java'}"

    def _fetch(self) -> None:
        self._jars.mkdir(parents=True, exist_ok=True)
        pom = self._jars / "pom.xml"
        pom.write_text(_POM)
        command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={self._jars / 'lib'}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
        except subprocess.TimeoutExpired as slow:
            raise PeerUnavailable(f"Maven did not fetch Apache Kafka within {_FETCH_S} s") from slow
        if done.returncode != 0:
            raise PeerUnavailable(f"Maven could not fetch Apache Kafka {VERSION}:\n{_errors_in(done.stdout)}")
        self._complete_marker().touch()

    def _format(self, properties: Path) -> None:
        command = ["java", "-cp", self._class_path(), "kafka.tools.StorageTool", "format"]
        command += ["-t", _CLUSTER_ID, "-c", str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_S, check=False)
        if done.returncode != 0:
            raise PeerUnavailable(f"Apache Kafka could not format its storage:\n{done.stdout}{done.stderr}")

    def _class_path(self) -> str:
        return str(self._jars / "lib" / "*")

    def _complete_marker(self) -> Path:
        return self._jars / "complete"


def _flush_lines(durability: Durability) -> list[str]:
    return ["log.flush.interval.messages=1"] if durability.is_synced else []


def _errors_in(output: str) -> str:
    lines = [line for line in output.splitlines() if "ERROR" in line]
    return "\n".join(lines[:5]) or output[-500:]
