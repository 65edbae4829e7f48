"""What went wrong, from the pages that Spark prints."""

from __future__ import annotations

import re

_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+): (\S.*)$", re.MULTILINE)
_PYTHON_TRACE = "Traceback (most recent call last)"


def last_words(text: str) -> str:
    """Of an error in a task or in a data source its own line, which ends Python's traceback; else the first line."""
    _, found, trace = text.rpartition(_PYTHON_TRACE)
    if found and (error := _ERROR.search(trace)) is not None:
        return f"{error[2]} ({error[1]})"
    return text.strip().partition("\n")[0]
