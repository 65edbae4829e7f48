"""Which data directory this is, and to which cluster it belongs: two small files in it."""

from __future__ import annotations

import os
import re
from uuid import UUID, uuid4

from penstock.disk.interface import Disk, read_whole, replace_atomically
from penstock.errors import PenstockError, Problem

EMBEDDED_STORE = "coordination"
_CLUSTER_ID = "cluster-id"
_DIRECTORY_ID = "directory-id"
_PLAIN = re.compile(r"[\w.-]{1,100}", re.ASCII)


class DataDirectory:
    """Everything here blocks, for as long as it takes to sync a small file. Whoever holds it holds the data lock."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Reads what is there. Raises PenstockError(STORAGE_FAILED) for files that hold something else."""
        self.path = path
        self._disk = disk
        self.cluster_id = self._read(_CLUSTER_ID)
        self._directory_id = self._read(_DIRECTORY_ID)
        if self._directory_id is not None:
            self._as_uuid(self._directory_id)

    @property
    def directory_id(self) -> UUID | None:
        """None until `settle`: an empty directory is nobody's."""
        return None if self._directory_id is None else self._as_uuid(self._directory_id)

    @property
    def has_embedded_store(self) -> bool:
        return self._disk.exists(os.path.join(self.path, EMBEDDED_STORE))

    def settle(self, cluster_id: str) -> UUID:
        """From now on it belongs to this cluster, for good, and has an id: one that no other directory has."""
        if self._directory_id is None:
            self._directory_id = str(uuid4())
            self._write(_DIRECTORY_ID, self._directory_id)
        if self.cluster_id is None:
            self.cluster_id = cluster_id
            self._write(_CLUSTER_ID, cluster_id)
        return self._as_uuid(self._directory_id)

    def _read(self, name: str) -> str | None:
        path = os.path.join(self.path, name)
        if not self._disk.exists(path):
            return None
        text = read_whole(self._disk, path).decode("ascii", errors="replace").strip()
        if not _PLAIN.fullmatch(text):
            raise self._garbage(name)
        return text

    def _write(self, name: str, text: str) -> None:
        try:
            replace_atomically(self._disk, os.path.join(self.path, name), f"{text}\n".encode())
        except OSError as error:
            raise PenstockError(Problem.STORAGE_FAILED, f"cannot write {self.path}/{name}: {error}") from error

    def _as_uuid(self, text: str) -> UUID:
        try:
            return UUID(text)
        except ValueError:
            raise self._garbage(_DIRECTORY_ID) from None

    def _garbage(self, name: str) -> PenstockError:
        text = f"{self.path}/{name} does not hold an id: restore it from a copy of the directory"
        return PenstockError(Problem.STORAGE_FAILED, text)
