"""Runs a scenario in a process of its own, with namespaces where they are to be had."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cluster.faults.network import command_in_namespaces, why_no_namespaces

ROOT = Path(__file__).resolve().parents[3]
# Where what a failed run left stays until somebody looks at it.
KEPT = ROOT / "build" / "faults"


def run_scenario(
    name: str, module: str, *options: str, timeout_s: float, product: Path | None = None
) -> dict[str, Any]:
    """What it saw, from the last line of its output. Its directory stays if it ended badly.

    `product`: where another `penstock` is to be found.
    """
    directory = KEPT / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    command = [sys.executable, "-m", module, "--directory", str(directory), *options]
    why = why_no_namespaces()
    if why:
        print(f"without network faults, {why}")
    ran = subprocess.run(
        command if why else command_in_namespaces(command),
        cwd=ROOT,
        env=_environment(product),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=timeout_s,
        check=False,
    )
    lines = ran.stdout.decode().splitlines()
    assert lines, f"it ended with {ran.returncode} and said nothing; see {directory}"
    seen: dict[str, Any] = json.loads(lines[-1])
    if ran.returncode == 0:
        shutil.rmtree(directory)
    else:
        print(f"kept in {directory}; again: {' '.join(command)}")
    return seen


def _environment(product: Path | None) -> dict[str, str]:
    """Settings of a broker may come from the environment; here all come from the scenario."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return kept if product is None else {**kept, "PYTHONPATH": f"{product}{os.pathsep}{ROOT}"}
