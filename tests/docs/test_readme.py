"""What the README shows, works as shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import TestNode, node

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[TestNode]:
    with node() as started:
        yield started


def test_the_first_commands(server: TestNode) -> None:
    shown = re.findall(r"^\$ (.+)$", README, re.MULTILINE)
    assert len(shown) == 3
    # The environment that runs the tests has the command too, wherever it lies.
    script = "\n".join(["set -e", *shown]).replace(".venv/bin/penstock", f"{sys.executable} -m penstock")
    environment = {**os.environ, "PENSTOCK_BOOTSTRAP": server.bootstrap}
    result = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    consumed = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert sorted((record["key"], record["value"]) for record in consumed) == [("alice", "10"), ("bob", "20")]


def test_the_program_with_a_kafka_client(server: TestNode) -> None:
    (program,) = re.findall(r"^```python\n(.+?)^```$", README, re.MULTILINE | re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9092", server.bootstrap)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert re.fullmatch(r"b'(alice|bob)' b'(10|20)'\n", result.stdout)


def test_every_link_leads_somewhere() -> None:
    for page in (README, (ROOT / "CONTRIBUTING.md").read_text(), (ROOT / "CHANGELOG.md").read_text()):
        links = re.findall(r"\]\(([^)#]+)", page)
        assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
