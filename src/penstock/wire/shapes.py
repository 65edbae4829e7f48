"""A message's fields as the codecs need them, read once from its dataclass (kio's, or our own of the same shape)."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from kio.schema.errors import ErrorCode

ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class FieldShape:
    name: str
    # Kafka's type, or ENTITY with the class in `entity`; of the elements, where it is an array.
    kind: str
    entity: type | None
    is_array: bool
    # Null can stand on the wire. A uuid has no null there: None means all zeros.
    nullable: bool
    tag: int | None
    # What a message without this field means.
    default: Any


# The types of fixed size, as `struct` spells them.
FIXED_FORMATS: Mapping[str, str] = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}

_ZEROS: Mapping[str, Any] = {
    "int8": 0,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "uint16": 0,
    "uint32": 0,
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
    "datetime_i64": None,
}


@cache
def shape_of(message: type) -> tuple[FieldShape, ...]:
    """In the order of the wire; tagged fields are among them."""
    types = get_type_hints(message)
    return tuple(
        _field(
            field.name, types[field.name], field.metadata.get("kafka_type", ENTITY), field.metadata.get("tag"), field
        )
        for field in fields(message)
    )


def is_flexible(message: type) -> bool:
    """Compact lengths and tagged fields (KIP-482)."""
    return bool(vars(message)["__flexible__"])


def _field(name: str, declared: Any, kind: str, tag: int | None, field: Any) -> FieldShape:
    inner, nullable = _without_none(declared)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner = get_args(inner)[0]
    entity = inner if is_dataclass(inner) else None
    assert isinstance(entity, type) or entity is None
    if field.default is not MISSING:
        default = field.default
    elif is_array:
        default = ()
    elif nullable:
        default = None
    else:
        default = _zero(entity) if entity is not None else _ZEROS.get(kind)
    return FieldShape(name, kind, entity, is_array, nullable and kind != "uuid", tag, default)


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) not in (UnionType, Union):
        return declared, False
    inner = [option for option in get_args(declared) if option is not NoneType]
    assert len(inner) == 1, declared
    return inner[0], True


def _zero(entity: type) -> Any:
    return entity(**{field.name: field.default for field in shape_of(entity)})
