"""What is compiled is known to be older than its source where it is, and nowhere else."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from penstock.node.build import outdated, source_of


@pytest.mark.parametrize(("seconds_later", "is_outdated"), [(-3600, False), (1, False), (3600, True)])
def test_a_source_that_was_changed_after_it_had_been_compiled(
    tmp_path: Path, seconds_later: int, is_outdated: bool
) -> None:
    built = tmp_path / f"connection{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = tmp_path / "connection.py"
    for file in (built, source):
        file.touch()
    at = built.stat().st_mtime + seconds_later
    os.utime(source, (at, at))
    assert source_of(built) == source
    assert outdated([built]) == ([source] if is_outdated else [])
