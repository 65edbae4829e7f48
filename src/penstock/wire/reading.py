"""Compiles a message class into a function that reads it from bytes a client sent.

kio has readers too, but they trust: they allocate by the count that they read, abort the process when that fails,
and refuse tagged fields that they do not know, which a newer client may send. So only kio's classes are used, and
its readers are what the tests compare with.

A reader turns the bytes of one version into the class of another by field name, so an older request costs one pass
and one object per row. Bytes behind the message are ignored, as Kafka does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode

from penstock.wire.bounds import (
    ElementBudget,
    read_count,
    read_size,
    read_string,
    read_tag,
    read_varint,
    skip_tagged_fields,
    uuid_of,
)
from penstock.wire.malformed import Malformed
from penstock.wire.shapes import ENTITY, FIXED_FORMATS, FieldShape, is_flexible, shape_of

Values = dict[str, Any]
# Reads one value: what it is, and the position behind it.
ReadValue = Callable[[bytes, int, ElementBudget], tuple[Any, int]]
# Reads some fields into a dictionary and returns the position behind them.
Step = Callable[[bytes, int, ElementBudget, Values], int]


def _milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _moment(value: int) -> datetime | None:
    return None if value == -1 else datetime.fromtimestamp(value / 1000, UTC)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "uuid": uuid_of,
    "error_code": ErrorCode,
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _milliseconds,
    "datetime_i64": _moment,
}


@cache
def reader_for(source: type, target: type) -> ReadValue:
    """Reads bytes laid out as `source` into a `target`. Fields that only the target has take their default;

    fields that only the source has are checked and dropped."""
    return _entity_reader(source, target, source.__name__)


def _entity_reader(source: type, target: type, where: str) -> ReadValue:
    wanted = {field.name: field for field in shape_of(target)}
    present = shape_of(source)
    names = {field.name for field in present}
    missing = {name: field.default for name, field in wanted.items() if name not in names}
    tagged = [field for field in present if field.tag is not None]
    absent = missing | {field.name: field.default for field in tagged if field.name in wanted}
    steps = _steps([field for field in present if field.tag is None], wanted, is_flexible(source), where)
    if is_flexible(source):
        steps.append(_tagged_step(tagged, wanted, where))

    def read(data: bytes, at: int, budget: ElementBudget) -> tuple[Any, int]:
        values = absent.copy()
        for step in steps:
            at = step(data, at, budget, values)
        return target(**values), at

    return read


def _steps(fields: list[FieldShape], wanted: Mapping[str, FieldShape], flexible: bool, where: str) -> list[Step]:
    """Neighbours of fixed size are read at once."""
    steps: list[Step] = []
    run: list[FieldShape] = []
    for field in fields:
        if field.kind in FIXED_FORMATS and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run, wanted, where))
            run = []
        steps.append(_field_step(field, wanted, flexible, where))
    if run:
        steps.append(_fixed_step(run, wanted, where))
    return steps


def _fixed_step(run: list[FieldShape], wanted: Mapping[str, FieldShape], where: str) -> Step:
    layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run))
    size, unpack = layout.size, layout.unpack_from
    names = [field.name for field in run]
    dropped = [name for name in names if name not in wanted]
    conversions = [(field.name, _CONVERSIONS[field.kind]) for field in run if field.kind in _CONVERSIONS]
    described = f"{where}.{names[0]}"

    def step(data: bytes, at: int, budget: ElementBudget, values: Values) -> int:
        try:
            values.update(zip(names, unpack(data, at), strict=True))
            for name, convert in conversions:
                values[name] = convert(values[name])
        except struct.error:
            raise Malformed(described, f"{size} bytes expected, {max(0, len(data) - at)} left") from None
        except (OverflowError, ValueError) as error:
            raise Malformed(described, str(error)) from None
        for name in dropped:
            del values[name]
        return at + size

    return step


def _field_step(field: FieldShape, wanted: Mapping[str, FieldShape], flexible: bool, where: str) -> Step:
    name = field.name
    target = wanted.get(name)
    read = _value_reader(field, target, flexible, f"{where}.{name}")
    if target is None:
        return lambda data, at, budget, values: read(data, at, budget)[1]

    def step(data: bytes, at: int, budget: ElementBudget, values: Values) -> int:
        values[name], at = read(data, at, budget)
        return at

    return step


def _tagged_step(tagged: list[FieldShape], wanted: Mapping[str, FieldShape], where: str) -> Step:
    known = {
        field.tag: (field.name, _value_reader(field, wanted.get(field.name), True, f"{where}.{field.name}"))
        for field in tagged
    }

    def step(data: bytes, at: int, budget: ElementBudget, values: Values) -> int:
        count, at = read_varint(data, at, where)
        previous = -1
        for _ in range(count):
            previous, size, at = read_tag(data, at, previous, budget, where)
            if previous in known:
                name, read = known[previous]
                value, end = read(data, at, budget)
                if end != at + size:
                    raise Malformed(f"{where}.{name}", f"tagged field of {end - at} bytes said to have {size}")
                if name in wanted:
                    values[name] = value
            at += size
        return at

    def skip(data: bytes, at: int, budget: ElementBudget, values: Values) -> int:
        return skip_tagged_fields(data, at, budget, where)

    return step if known else skip


def _value_reader(field: FieldShape, target: FieldShape | None, flexible: bool, where: str) -> ReadValue:
    if field.is_array:
        return _array_reader(field, target, flexible, where)
    if field.kind == ENTITY:
        assert field.entity is not None
        wanted = target.entity if target is not None and target.entity is not None else field.entity
        read = _entity_reader(field.entity, wanted, where)
        return _nullable_reader(read, where) if field.nullable else read
    return _scalar_reader(field.kind, field.nullable, flexible, where)


def _nullable_reader(read: ReadValue, where: str) -> ReadValue:
    """KIP-893: a byte in front says whether the structure is there."""

    def read_nullable(data: bytes, at: int, budget: ElementBudget) -> tuple[Any, int]:
        if at >= len(data):
            raise Malformed(where, "the bytes end before it")
        return (None, at + 1) if data[at] >= 0x80 else read(data, at + 1, budget)

    return read_nullable


def _scalar_reader(kind: str, nullable: bool, flexible: bool, where: str) -> ReadValue:
    if kind == "string":
        return _string_reader(nullable, flexible, where)
    if kind in ("bytes", "records"):
        return _bytes_reader(nullable, flexible, where)
    step = _fixed_step([FieldShape("value", kind, None, False, False, None, None)], {"value": None}, where)  # type: ignore[dict-item]

    def read(data: bytes, at: int, budget: ElementBudget) -> tuple[Any, int]:
        values: Values = {}
        at = step(data, at, budget, values)
        return values["value"], at

    return read


def _string_reader(nullable: bool, flexible: bool, where: str) -> ReadValue:
    def read(data: bytes, at: int, budget: ElementBudget) -> tuple[Any, int]:
        text, at = read_string(data, at, flexible, where)
        if text is None and not nullable:
            raise Malformed(where, "null, but it must be there")
        return text, at

    return read


def _bytes_reader(nullable: bool, flexible: bool, where: str) -> ReadValue:
    def read(data: bytes, at: int, budget: ElementBudget) -> tuple[Any, int]:
        size, at = read_size(data, at, flexible, where)
        if size < 0:
            if not nullable:
                raise Malformed(where, "null, but it must be there")
            return None, at
        end = at + size
        if end > len(data):
            raise Malformed(where, f"length {size} with {len(data) - at} bytes left")
        return data[at:end], end

    return read


def _array_reader(field: FieldShape, target: FieldShape | None, flexible: bool, where: str) -> ReadValue:
    element = FieldShape(field.name, field.kind, field.entity, False, False, None, None)
    nullable = field.nullable
    least_bytes = _least_bytes(element, flexible)
    plain = FIXED_FORMATS[field.kind] if field.kind in FIXED_FORMATS and field.kind not in _CONVERSIONS else None
    read_element = _value_reader(element, target, flexible, where)

    def read(data: bytes, at: int, budget: ElementBudget) -> tuple[Any, int]:
        count, at = read_count(data, at, flexible, least_bytes, budget, where)
        if count < 0:
            if not nullable:
                raise Malformed(where, "null, but it must be there")
            return None, at
        if plain is not None:
            return struct.unpack_from(f">{count}{plain}", data, at), at + count * least_bytes
        elements = []
        for _ in range(count):
            value, at = read_element(data, at, budget)
            elements.append(value)
        return tuple(elements), at

    return read


def _least_bytes(field: FieldShape, flexible: bool) -> int:
    """How few bytes a value can take; never 0, so a count is always bounded by the bytes that are there."""
    if field.is_array or field.kind in ("bytes", "records"):
        return 1 if flexible else 4
    if field.kind == "string":
        return 1 if flexible else 2
    if field.kind == ENTITY:
        assert field.entity is not None
        own = sum(_least_bytes(inner, flexible) for inner in shape_of(field.entity) if inner.tag is None)
        return 1 if field.nullable else own + (1 if flexible else 0)
    return struct.calcsize(">" + FIXED_FORMATS[field.kind])
