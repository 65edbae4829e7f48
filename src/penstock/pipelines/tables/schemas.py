"""Columns in words, to compare and to show."""

from __future__ import annotations

import pyarrow as pa


def schema_words(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}
