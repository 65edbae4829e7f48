"""A disk in memory whose power can be cut: what was synced stays, of everything else any part may.

What was not synced is written in pages, so a write can be torn; truncations, created names, renames and removals are
kept or lost each on its own. It also fails on demand and can be full.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from penstock.disk.interface import Buffer, Space

PAGE_BYTES = 512


@dataclass
class _Write:
    position: int
    data: bytes
    # A sync failed while it was pending: it never reaches the device, whatever later syncs say.
    lost: bool = False

    def apply(self, content: bytearray) -> None:
        if len(content) < self.position:
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.data)] = self.data


@dataclass
class _Truncate:
    size: int
    lost: bool = False

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


@dataclass(eq=False)
class _Node:
    """A file."""

    durable: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Truncate] = field(default_factory=list)

    def settle(self, kept: Sequence[_Write | _Truncate]) -> None:
        for change in kept:
            if not change.lost:
                change.apply(self.durable)
        self.pending = []


@dataclass(eq=False)
class _Directory:
    durable: dict[str, _Node | _Directory] = field(default_factory=dict)
    entries: dict[str, _Node | _Directory] = field(default_factory=dict)
    pending: list[_NameChange] = field(default_factory=list)


@dataclass(eq=False)
class _NameChange:
    """Names that change together or not at all."""

    number: int
    names: list[tuple[_Directory, str, _Node | _Directory | None]]

    def settle(self) -> None:
        for directory, name, node in self.names:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node
            if self in directory.pending:
                directory.pending.remove(self)


@dataclass
class _Fault:
    operation: str
    number: int
    path_part: str
    times: int


class PowerCutFile:
    def __init__(self, disk: PowerCutDisk, node: _Node, path: str) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._cuts = disk.cuts

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        if (taken := self._disk.short_write) is not None:
            data, self._disk.short_write = data[:taken], None
        else:
            self._check("write")
        room = self._disk.room()
        if room is not None and position + len(data) > len(self._node.content) + room:
            data = data[: max(0, len(self._node.content) + room - position)]
            if not data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        start = 0
        while start < len(data):
            stop = start + PAGE_BYTES - (position + start) % PAGE_BYTES
            change = _Write(position + start, data[start:stop])
            change.apply(self._node.content)
            self._node.pending.append(change)
            start = stop
        return len(data)

    def read(self, position: int, length: int) -> bytes:
        self._check("read")
        return bytes(self._node.content[position : position + length])

    def read_cached(self, position: int, length: int) -> Buffer | None:
        data = bytearray(self.read(position, length))
        return data if len(data) == length and not self._disk.is_cold else None

    def is_cached(self, position: int, length: int) -> bool:
        return False

    def read_ahead_bytes(self) -> int:
        return 0

    def send(self, socket: int, position: int, length: int) -> int:
        return os.write(socket, self.read(position, length))

    def sync(self) -> None:
        try:
            self._check("sync")
        except OSError:
            # As Linux does it: the pages count as clean now, so the next sync will not complain.
            for change in self._node.pending:
                change.lost = True
            raise
        self._node.settle(self._node.pending)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        if size != len(self._node.content):
            change = _Truncate(size)
            change.apply(self._node.content)
            self._node.pending.append(change)

    def reserve(self, position: int, length: int) -> None:
        self._check("reserve")

    def size(self) -> int:
        return len(self._node.content)

    def close(self) -> None:
        return None

    def _check(self, operation: str) -> None:
        if self._cuts != self._disk.cuts:
            raise OSError(errno.EIO, "this file was opened before the power was cut")
        self._disk.trip(operation, self._path)


class PowerCutDisk:
    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        # Nothing is in the page cache.
        self.is_cold = False
        # The next write takes only so many bytes, and faults wait for the one after it.
        self.short_write: int | None = None
        self.cuts = 0
        self._root = _Directory()
        self._changes = 0
        self._faults: list[_Fault] = []

    # The disk

    def open(self, path: str, *, create: bool = False) -> PowerCutFile:
        self.trip("open", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.trip("create", path)
            node = _Node()
            self._change([(directory, name, node)])
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return PowerCutFile(self, node, path)

    def exists(self, path: str) -> bool:
        self.trip("exists", path)
        try:
            self._find(path)
        except FileNotFoundError:
            return False
        return True

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def make_directory(self, path: str, *, for_good: bool = True) -> None:
        self.trip("make_directory", path)
        directory = self._root
        for name in _parts(path):
            following = directory.entries.get(name)
            if following is None:
                following = _Directory()
                self._change([(directory, name, following)])
                if for_good:
                    self._sync(directory)
            assert isinstance(following, _Directory)
            directory = following

    def rename(self, source: str, target: str) -> None:
        self.trip("rename", source)
        node = self._find(source)
        source_directory, source_name = self._parent(source)
        target_directory, target_name = self._parent(target)
        self._change([(source_directory, source_name, None), (target_directory, target_name, node)])

    def remove(self, path: str) -> None:
        self.trip("remove", path)
        self._find(path)
        directory, name = self._parent(path)
        self._change([(directory, name, None)])

    def remove_directory(self, path: str) -> None:
        self.remove(path)

    def sync_directory(self, path: str) -> None:
        self.trip("sync_directory", path)
        self._sync(self._directory(path))

    def space(self, path: str) -> Space:
        room = self.room()
        return Space(2**62, 2**62) if self.capacity_bytes is None or room is None else Space(self.capacity_bytes, room)

    # What a test does to it

    def cut_power(self, choose: Random) -> None:
        """Keeps what `choose` wants of everything that is not synced. Open files are dead from now on."""
        self.cuts += 1
        self._faults = []
        self.short_write = None
        # Often all or nothing of a kind survives, and that is where the interesting cases are.
        chance = choose.choice((0.0, 0.5, 0.9, 1.0))
        nodes, changes = self._unsettled()
        for change in sorted(changes, key=lambda change: change.number):
            if choose.random() < chance:
                change.settle()
        for node in nodes:
            chance = choose.choice((0.0, 0.5, 0.9, 1.0))
            node.settle([change for change in node.pending if choose.random() < chance])
        self._restart(self._root)

    def fail_next(self, operation: str, number: int, *, path_part: str = "", times: int = 1) -> None:
        """The next `times` calls of `operation` on such a path raise this error."""
        self._faults.append(_Fault(operation, number, path_part, times))

    def damage(self, path: str, position: int, data: bytes) -> None:
        """The device has other bytes than those that were written."""
        node = self._find(path)
        assert isinstance(node, _Node)
        for content in (node.durable, node.content):
            content[position : position + len(data)] = data

    def replace(self, path: str, content: bytes) -> None:
        node = self._find(path)
        assert isinstance(node, _Node)
        node.durable, node.content, node.pending = bytearray(content), bytearray(content), []

    # Within

    def trip(self, operation: str, path: str) -> None:
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path:
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                raise OSError(fault.number, os.strerror(fault.number), path)

    def room(self) -> int | None:
        if self.capacity_bytes is None:
            return None
        nodes, _ = self._unsettled()
        return max(0, self.capacity_bytes - sum(len(other.content) for other in nodes))

    def _change(self, names: list[tuple[_Directory, str, _Node | _Directory | None]]) -> None:
        self._changes += 1
        change = _NameChange(self._changes, names)
        for directory, name, node in names:
            directory.pending.append(change)
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node

    def _sync(self, directory: _Directory) -> None:
        for change in list(directory.pending):
            change.settle()

    def _unsettled(self) -> tuple[list[_Node], list[_NameChange]]:
        """Every file that has a name or had one at the last sync, and every name that may change yet."""
        nodes: dict[_Node, None] = {}
        changes: dict[_NameChange, None] = {}
        seen: set[_Directory] = set()
        waiting: list[_Node | _Directory] = [self._root]
        while waiting:
            found = waiting.pop()
            if isinstance(found, _Node):
                nodes[found] = None
            elif found not in seen:
                seen.add(found)
                waiting += [*found.entries.values(), *found.durable.values()]
                for change in found.pending:
                    changes[change] = None
                    waiting += [node for _, _, node in change.names if node is not None]
        return list(nodes), list(changes)

    def _restart(self, directory: _Directory) -> None:
        directory.entries = dict(directory.durable)
        directory.pending = []
        for node in directory.entries.values():
            if isinstance(node, _Directory):
                self._restart(node)
            else:
                node.content = bytearray(node.durable)
                node.pending = []

    def _find(self, path: str) -> _Node | _Directory:
        node: _Node | _Directory = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.entries[name]
        return node

    def _directory(self, path: str) -> _Directory:
        found = self._find(path)
        if not isinstance(found, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return found

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
