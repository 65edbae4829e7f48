"""How a pipeline says no."""

from __future__ import annotations


class PipelineRefused(Exception):
    """The text says what is wrong and what to do; nothing was changed."""
