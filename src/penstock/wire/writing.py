"""Compiles a message class into a function that writes any object with fields of those names.

So the newest response is written as any older version without an object in between: a field that the object does
not have is written as its default, a null that the version cannot say as its zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from penstock.wire.appending import append_compact_bytes, append_compact_string, append_string, append_varint
from penstock.wire.shapes import ENTITY, FIXED_FORMATS, FieldShape, is_flexible, shape_of

# Appends one value.
WriteValue = Callable[[bytearray, Any], None]
# Appends some fields of a message.
Step = Callable[[bytearray, Any], None]

_INT32 = struct.Struct(">i")
_MILLISECOND = timedelta(milliseconds=1)
_ZERO_UUID = bytes(16)


def _uuid_bytes(value: UUID | None) -> bytes:
    return _ZERO_UUID if value is None else value.bytes


def _milliseconds(value: timedelta) -> int:
    return value // _MILLISECOND


def _moment(value: datetime | None) -> int:
    return -1 if value is None else round(value.timestamp() * 1000)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "uuid": _uuid_bytes,
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _milliseconds,
    "datetime_i64": _moment,
}


@cache
def writer_for(layout: type, source: type) -> Step:
    """Appends a `source` (or anything of its shape) as the bytes that `layout` describes."""
    steps = _steps(shape_of(layout), source, is_flexible(layout))

    def write(out: bytearray, message: Any) -> None:
        for step in steps:
            step(out, message)

    return write


@cache
def response_writer_for(layout: type, source: type) -> Callable[[bytearray, Any, int], None]:
    """The same with the throttle time, which dispatch knows and handlers do not."""
    fields = shape_of(layout)
    names = [field.name for field in fields]
    if "throttle_time" not in names:
        write = writer_for(layout, source)
        return lambda out, message, throttle_ms: write(out, message)
    at = names.index("throttle_time")
    untagged_before = _untagged_steps(
        [field for field in fields[:at] if field.tag is None], source, is_flexible(layout)
    )
    after = _steps(fields[at + 1 :], source, is_flexible(layout))
    assert all(field.tag is None for field in fields[: at + 1]), "a tagged field in front would be written too early"

    def write_response(out: bytearray, message: Any, throttle_ms: int) -> None:
        for step in untagged_before:
            step(out, message)
        out += _INT32.pack(throttle_ms)
        for step in after:
            step(out, message)

    return write_response


def _steps(fields: tuple[FieldShape, ...], source: type, flexible: bool) -> list[Step]:
    steps = _untagged_steps([field for field in fields if field.tag is None], source, flexible)
    if flexible:
        tagged = sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
        steps.append(_tagged_step(tagged, source))
    return steps


def _untagged_steps(fields: list[FieldShape], source: type, flexible: bool) -> list[Step]:
    steps: list[Step] = []
    run: list[FieldShape] = []
    for field in fields:
        if field.kind in FIXED_FORMATS and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run, source))
            run = []
        steps.append(_field_step(field, source, flexible))
    if run:
        steps.append(_fixed_step(run, source))
    return steps


def _getter(field: FieldShape, source: type) -> Callable[[Any], Any]:
    """The field's value; the default where the source's class does not have it, or has null and the wire has not."""
    name, default = field.name, field.default
    theirs = {other.name: other for other in shape_of(source)}.get(name)
    if theirs is None:
        return lambda message: default
    if theirs.nullable and not field.nullable:
        zero = () if field.is_array else default if default is not None else _zero_of(field)

        def get(message: Any) -> Any:
            value = getattr(message, name)
            return zero if value is None else value

        return get
    return lambda message: getattr(message, name)


def _zero_of(field: FieldShape) -> Any:
    """None where its conversion says it: an id of zeros, a moment of -1."""
    if field.kind in ("uuid", "datetime_i64"):
        return None
    return "" if field.kind == "string" else b""


def _fixed_step(run: list[FieldShape], source: type) -> Step:
    pack = struct.Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run)).pack
    getters = [_converted(_getter(field, source), _CONVERSIONS.get(field.kind)) for field in run]

    def step(out: bytearray, message: Any) -> None:
        out += pack(*[get(message) for get in getters])

    return step


def _converted(get: Callable[[Any], Any], convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return get if convert is None else lambda message: convert(get(message))


def _field_step(field: FieldShape, source: type, flexible: bool) -> Step:
    get = _getter(field, source)
    write = _value_writer(field, source, flexible)
    return lambda out, message: write(out, get(message))


def _tagged_step(tagged: list[FieldShape], source: type) -> Step:
    known = [
        (field.tag or 0, field.default, _getter(field, source), _value_writer(field, source, True)) for field in tagged
    ]
    if not known:
        return lambda out, message: out.append(0)

    def step(out: bytearray, message: Any) -> None:
        values = [(tag, get(message), default, write) for tag, default, get, write in known]
        written = [(tag, value, write) for tag, value, default, write in values if value != default]
        append_varint(out, len(written))
        for tag, value, write in written:
            body = bytearray()
            write(body, value)
            append_varint(out, tag)
            append_varint(out, len(body))
            out += body

    return step


def _value_writer(field: FieldShape, source: type, flexible: bool) -> WriteValue:
    if field.is_array:
        return _array_writer(field, source, flexible)
    if field.kind == ENTITY:
        assert field.entity is not None
        write = writer_for(field.entity, _source_entity(field, source))
        return _nullable_writer(write) if field.nullable and field.tag is None else write
    if field.kind == "string":
        return append_compact_string if flexible else append_string
    if field.kind in ("bytes", "records"):
        return append_compact_bytes if flexible else _write_bytes
    return _fixed_writer(field.kind)


def _source_entity(field: FieldShape, source: type) -> type:
    for theirs in shape_of(source):
        if theirs.name == field.name and theirs.entity is not None:
            return theirs.entity
    assert field.entity is not None
    return field.entity


def _fixed_writer(kind: str) -> WriteValue:
    pack = struct.Struct(">" + FIXED_FORMATS[kind]).pack
    convert = _CONVERSIONS.get(kind)

    def write(out: bytearray, value: Any) -> None:
        out += pack(value if convert is None else convert(value))

    return write


def _nullable_writer(write: Step) -> WriteValue:
    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, value)

    return write_nullable


def _array_writer(field: FieldShape, source: type, flexible: bool) -> WriteValue:
    element = FieldShape(field.name, field.kind, field.entity, False, False, None, None)
    write_element = _value_writer(element, source, flexible)

    def write(out: bytearray, values: Any) -> None:
        count = -1 if values is None else len(values)
        if flexible:
            append_varint(out, count + 1)
        else:
            out += _INT32.pack(count)
        for value in values or ():
            write_element(out, value)

    return write


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += _INT32.pack(len(value))
        out += value
