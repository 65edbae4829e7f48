"""The real disk does what the seam promises."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from tests.disk.cachestat import has_cachestat

from penstock.disk.interface import read_whole, replace_atomically, write_fully
from penstock.disk.local import LocalDisk


def test_files_are_read_as_written(tmp_path: Path) -> None:
    disk = LocalDisk()
    file = disk.open(f"{tmp_path}/a", create=True)
    assert file.write([b"hello ", bytearray(b"wor"), memoryview(b"ld")], 3) == 11
    file.sync()
    assert file.size() == 14
    assert file.read(0, 100) == b"\0\0\0hello world"
    assert file.read(3, 5) == b"hello"
    assert file.read(100, 5) == b""
    file.truncate(8)
    assert read_whole(disk, f"{tmp_path}/a") == b"\0\0\0hello"


def test_a_cached_read_is_whole_or_nothing(tmp_path: Path) -> None:
    file = LocalDisk().open(f"{tmp_path}/a", create=True)
    write_fully(file, [b"x" * 100_000], 0)
    cached = file.read_cached(10, 50_000)
    assert cached is None or bytes(cached) == b"x" * 50_000
    assert file.read_cached(99_999, 2) is None, "beyond the end"


def test_what_was_just_written_is_in_the_page_cache_and_goes_to_a_socket_from_there(tmp_path: Path) -> None:
    file = LocalDisk().open(f"{tmp_path}/a", create=True)
    write_fully(file, [b"x" * 5_000, b"y" * 5_000], 0)
    if not has_cachestat():
        pytest.skip("this system does not tell what is in its page cache")
    assert file.is_cached(0, 10_000) and file.is_cached(4_999, 1) and file.is_cached(4_095, 2)
    assert not file.is_cached(0, 1_000_000), "beyond the end"
    assert not file.is_cached(0, 0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert file.send(ours.fileno(), 4_998, 4) == 4
        assert theirs.recv(100) == b"xxyy"
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                file.send(ours.fileno(), 0, 10_000)
    file.close()
    assert not file.is_cached(0, 10_000)


def test_a_missing_file_is_made_only_if_asked(tmp_path: Path) -> None:
    disk = LocalDisk()
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/a")
    disk.open(f"{tmp_path}/a", create=True)
    assert disk.exists(f"{tmp_path}/a")
    assert disk.list_directory(str(tmp_path)) == ["a"]


def test_a_file_nobody_refers_to_is_closed(tmp_path: Path) -> None:
    disk = LocalDisk()
    before = set(os.listdir("/proc/self/fd"))
    file = disk.open(f"{tmp_path}/a", create=True)
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    del file
    assert set(os.listdir("/proc/self/fd")) <= before
    twice = disk.open(f"{tmp_path}/a")
    twice.close()
    twice.close()


def test_directories(tmp_path: Path) -> None:
    disk = LocalDisk()
    disk.make_directory(f"{tmp_path}/a/b/c")
    disk.make_directory(f"{tmp_path}/a/b/c")
    replace_atomically(disk, f"{tmp_path}/a/b/c/file", b"1")
    replace_atomically(disk, f"{tmp_path}/a/b/c/file", b"22")
    assert read_whole(disk, f"{tmp_path}/a/b/c/file") == b"22"
    assert disk.list_directory(f"{tmp_path}/a/b/c") == ["file"]
    disk.rename(f"{tmp_path}/a/b", f"{tmp_path}/moved")
    disk.sync_directory(str(tmp_path))
    disk.remove(f"{tmp_path}/moved/c/file")
    disk.remove_directory(f"{tmp_path}/moved")
    assert disk.list_directory(str(tmp_path)) == ["a"]
    assert disk.space(str(tmp_path)).free_bytes > 0


def test_room_that_was_reserved_changes_nothing_and_goes_with_a_truncation(tmp_path: Path) -> None:
    file = LocalDisk().open(f"{tmp_path}/a", create=True)
    write_fully(file, [b"x" * 5_000], 0)
    file.sync()
    before = os.stat(f"{tmp_path}/a").st_blocks
    try:
        file.reserve(5_000, 1_000_000)
    except OSError as problem:
        pytest.skip(f"this file system has no such thing: {problem}")
    assert (file.size(), file.read(0, 10_000)) == (5_000, b"x" * 5_000)
    assert os.stat(f"{tmp_path}/a").st_blocks * 512 >= 1_000_000
    write_fully(file, [b"y" * 5_000], 6_000)
    assert file.read(0, 20_000) == b"x" * 5_000 + b"\0" * 1_000 + b"y" * 5_000
    file.truncate(5_000)
    assert (file.size(), os.stat(f"{tmp_path}/a").st_blocks) == (5_000, before)
    with pytest.raises(OSError):
        file.reserve(0, -1)
