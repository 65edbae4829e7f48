"""Whether the hot path runs compiled, and from the sources that are there (docs/adr/0010-compiled-hot-path.md)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger(__name__)

# An installation writes sources and what was compiled from them within seconds, in any order.
_MARGIN_S = 60


def about_build() -> dict[str, object]:
    """For the log, where old code is told of, too: a checkout that was changed and not set up again."""
    loaded = (getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("penstock."))
    compiled = [Path(file) for file in loaded if file is not None and source_of(Path(file)).exists()]
    compiled = [file for file in compiled if file.suffix != ".py"]
    for source in outdated(compiled):
        logger.warning(
            "build.outdated",
            extra={"source": str(source), "do": "run `make setup`: the code that was compiled before is run"},
        )
    return {"compiled": bool(compiled)}


def outdated(compiled: Iterable[Path]) -> list[Path]:
    """The sources that were changed after they had been compiled."""
    limits = [(source_of(file), file.stat().st_mtime + _MARGIN_S) for file in compiled]
    return [source for source, limit in limits if source.stat().st_mtime > limit]


def source_of(file: Path) -> Path:
    return file.with_name(f"{file.name.partition('.')[0]}.py")
