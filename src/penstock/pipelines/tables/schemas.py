"""Columns in words, to compare and to show."""

from __future__ import annotations

import pyarrow as pa


def schema_words(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def in_utc(schema: pa.Schema) -> pa.Schema:
    """The same moments, whatever time zone Spark's session shows them in: Iceberg takes no other."""
    return pa.schema([_field_in_utc(field) for field in schema], schema.metadata)


def _field_in_utc(field: pa.Field) -> pa.Field:
    return field.with_type(_type_in_utc(field.type))


def _type_in_utc(found: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(found) and found.tz is not None:
        return pa.timestamp(found.unit, "UTC")
    if pa.types.is_struct(found):
        return pa.struct([_field_in_utc(field) for field in found])
    if pa.types.is_list(found):
        return pa.list_(_field_in_utc(found.value_field))
    if pa.types.is_map(found):
        return pa.map_(_field_in_utc(found.key_field), _field_in_utc(found.item_field))
    return found
