from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.disk.lock import DirectoryLock
from penstock.errors import PenstockError


def test_a_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    with DirectoryLock.take(str(tmp_path)):
        with pytest.raises(PenstockError, match=f"in use by process {os.getpid()} on ") as caught:
            DirectoryLock.take(str(tmp_path))
        assert str(tmp_path) in str(caught.value)
    with DirectoryLock.take(str(tmp_path)):
        pass


def test_a_file_left_by_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("process 999999999 on a host with a very long name indeed")
    lock = DirectoryLock.take(str(tmp_path))
    assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
    lock.release()
    lock.release()
