"""Client programs in other languages: fetched, built into a temporary directory, and run.

Each takes `produce`, `admin` or `member` and a JSON object, some also what is done in transactions. `member` speaks the
line protocol that `tests/interop/member.py` describes; the others print one JSON object when they are done.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.interop.member import Member
from tests.interop.membership import Membership

SOURCES = Path(__file__).parent
_FETCH_TIMEOUT_S = 300
_RUN_TIMEOUT_S = 60


@dataclass(frozen=True)
class Program:
    name: str
    command: tuple[str, ...]
    codecs: tuple[str, ...]
    # What it can say for group.protocol.
    protocols: tuple[str, ...] = ("classic",)
    # Which version of transactions it speaks with a broker that has version 2 (KIP-890). 0: they are not tried with it.
    transactions: int = 0

    def run(self, what: str, **told: object) -> dict[str, Any]:
        done = subprocess.run(
            [*self.command, what, json.dumps(told)], capture_output=True, text=True, timeout=_RUN_TIMEOUT_S
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def member(self, membership: Membership) -> Member:
        return Member([*self.command, "member"], membership)


BOTH_PROTOCOLS = ("classic", "consumer")
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def java(version: str, directory: Path, protocols: tuple[str, ...], transactions: int) -> Program:
    _need("mvn", "javac", "java")
    shutil.copytree(SOURCES / "java", directory, dirs_exist_ok=True)
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", f"-Dkafka.version={version}"]
    _fetch("Maven Central", fetch, directory)
    _build(["javac", "-cp", "libs/*", "-d", "classes", "Interop.java", "Transactions.java"], directory)
    classpath = f"{directory}/classes:{directory}/libs/*"
    # Members are many and short-lived: no compiler threads and no large heap for them.
    command = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp", classpath, "Interop")
    return Program(f"java {version}", command, ALL_CODECS, protocols, transactions)


def go(name: str, directory: Path, protocols: tuple[str, ...], transactions: int = 0) -> Program:
    _need("go")
    shutil.copytree(SOURCES / name, directory, dirs_exist_ok=True)
    _fetch("the Go proxy", ["go", "mod", "download"], directory)
    _build(["go", "build", "-o", "program", "."], directory)
    return Program(name, (str(directory / "program"),), ALL_CODECS, protocols, transactions)


def kafkajs(directory: Path) -> Program:
    _need("node", "npm")
    shutil.copytree(SOURCES / "kafkajs", directory, dirs_exist_ok=True)
    _fetch("the npm registry", ["npm", "ci", "--no-audit", "--no-fund"], directory)
    # Its other codecs are packages of other people.
    return Program("kafkajs", ("node", str(directory / "main.js")), ("none", "gzip"))


def _need(*tools: str) -> None:
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")


def _fetch(registry: str, command: Sequence[str], directory: Path) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{registry} is out of reach: no answer in {_FETCH_TIMEOUT_S} s")
    if done.returncode:
        pytest.skip(f"{registry} is out of reach: {(done.stderr or done.stdout).strip()[-300:]}")


def _build(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env={**os.environ, "GOFLAGS": ""})
    assert done.returncode == 0, done.stderr
