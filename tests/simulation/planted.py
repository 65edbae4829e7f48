"""Bugs planted into a copy of the product: `tests/planted/NAME.patch`, each with a line on what it does wrong.

Those in a folder are for others than the simulation to find.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.simulation.hunt import Found

ROOT = Path(__file__).resolve().parent.parent.parent
PATCHES = ROOT / "tests" / "planted"


def names(pattern: str = "*") -> list[str]:
    return sorted(str(path.relative_to(PATCHES).with_suffix("")) for path in PATCHES.glob(f"{pattern}.patch"))


def copy_product(directory: Path) -> Path:
    # Not what was compiled from it before: that would be run instead of what is planted.
    sources = shutil.ignore_patterns("__pycache__", "*.so")
    copy = directory / "src"
    shutil.copytree(ROOT / "src" / "penstock", copy / "penstock", ignore=sources)
    return copy


def plant(name: str, directory: Path, *options: str) -> None:
    """Into the copy below `directory`. Fails when the product has changed where the bug was."""
    _run(["git", "apply", "-p1", *options, str(PATCHES / f"{name}.patch")], directory)


def hunt_planted(name: str, directory: Path, first: int, count: int) -> Found | None:
    """What the simulation finds in a copy below `directory` that has this bug."""
    copy = copy_product(directory)
    plant(name, directory)
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.simulation.hunt", str(first), str(count)]
    answer = json.loads(_run(command, ROOT, environment))
    # Else it would be the product itself that was searched.
    assert answer["of"].startswith(str(copy)), answer["of"]
    return None if answer["found"] is None else Found(**answer["found"])


def _run(command: list[str], directory: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout
