"""Spark's own Kafka connector, fetched with Maven: of the installed Spark's version, or the newest before it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
from benchmarks.peers.broker import PeerUnavailable, cache_directory

_FETCH_S = 300
_SCALA = "2.13"
# Not every release is in Maven's repository. Their classes are Spark's own affair: one that does not fit fails at once.
_EARLIER = ("4.2.0", "4.1.0", "4.0.0")


class Connector:
    """Four jars. Each is fetched without what its pom names: the rest is Spark's own, which is there."""

    def __init__(self) -> None:
        self._directory = cache_directory() / "spark-kafka"

    def prepare(self) -> list[Path]:
        """The jars. Raises PeerUnavailable."""
        if shutil.which("mvn") is None:
            raise PeerUnavailable("Spark's Kafka connector needs `mvn`, which is not on the PATH")
        return [
            self._newest(f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}"),
            self._newest(f"org.apache.spark:spark-token-provider-kafka-0-10_{_SCALA}"),
            self._jar("org.apache.kafka:kafka-clients:3.9.1"),
            self._jar("org.apache.commons:commons-pool2:2.12.0"),
        ]

    def _newest(self, artifact: str) -> Path:
        """One that was fetched before is taken without another question for a newer one."""
        candidates = [f"{artifact}:{version}" for version in _versions(pyspark.__version__)]
        for candidate in candidates:
            if self._path(candidate).exists():
                return self._path(candidate)
        failures = []
        for candidate in candidates:
            try:
                return self._jar(candidate)
            except PeerUnavailable as problem:
                failures.append(problem)
        raise failures[0]

    def _path(self, artifact: str) -> Path:
        _, name, version = artifact.split(":")
        return self._directory / f"{name}-{version}.jar"

    def _jar(self, artifact: str) -> Path:
        path = self._path(artifact)
        if not path.exists():
            command = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={artifact}"]
            command += [f"-DoutputDirectory={self._directory}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
            except subprocess.TimeoutExpired as slow:
                raise PeerUnavailable(f"Maven did not fetch {artifact} within {_FETCH_S} s") from slow
            if done.returncode != 0 or not path.exists():
                errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
                raise PeerUnavailable(f"Maven could not fetch {artifact}: {' '.join(errors[:1])}")
        return path


def _versions(installed: str) -> Iterator[str]:
    yield installed
    yield from (version for version in _EARLIER if _numbers(version) < _numbers(installed))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:3] if part.isdigit()]
