"""Check recorded histories again: python -m tests.cluster.history DIRECTORY"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cluster.history.checker import check
from tests.cluster.history.recording import read_events

if __name__ == "__main__":
    events = read_events(Path(sys.argv[1]))
    findings = check(events)
    print(*findings, sep="\n")
    print(f"{len(events)} events, {len(findings)} findings")
    sys.exit(bool(findings))
