"""`penstock pipeline run audit` as a process, and how much memory it and what it starts take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_LOOK_S = 0.25
_TIMEOUT_S = 600


class AuditProcess:
    """Either `run`, or as a context: then it has ended when the block is left."""

    def __init__(self, bootstrap: str, token: str, *topics: str) -> None:
        command = [sys.executable, "-m", "penstock", "pipeline", "run", "audit", *topics, "--bootstrap", bootstrap]
        command += ["--master", "local[2]", "--conf", "spark.driver.memory=1g", "--output", "json"]
        environment = {**os.environ, "PENSTOCK_AUDIT_TOKEN": token, "SPARK_LOCAL_IP": "127.0.0.1"}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, name="audit-memory", daemon=True)
        self._watch.start()
        self.peak_mib = 0
        self.exit_code = -1
        self.outcome: dict[str, Any] = {}

    def run(self) -> Self:
        with self:
            return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                self._process.terminate()
            printed, _ = self._process.communicate(timeout=_TIMEOUT_S)
        finally:
            self._ended.set()
            self._watch.join()
        self.exit_code = self._process.returncode
        if kind is None:
            assert printed, f"it ended with {self.exit_code}"
            self.outcome = json.loads(printed)

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.peak_mib = max(self.peak_mib, _resident_kib(self._process.pid) // 1024)


def _resident_kib(pid: int) -> int:
    """Of it and all that it has started; pages that workers share with who forked them count once for each."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    own = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
    return own + sum(_resident_kib(int(child)) for child in children)
