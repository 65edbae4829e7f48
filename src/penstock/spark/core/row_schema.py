"""The columns of a row: those of Spark's Kafka source. A reader may ask for fewer."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from penstock.spark.core.option_values import OptionError
from penstock.spark.core.row_columns import Column

# By name, with the type as Spark's simpleString writes it.
_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


def row_schema(*, include_headers: bool) -> str:
    """As DDL, in the order of Spark's Kafka source."""
    return ", ".join(f"{name} {type_}" for name, type_ in _TYPES.items() if include_headers or name != "headers")


def columns_of(fields: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    """The names in a schema that a reader was given, if there are such columns of such types."""
    names = []
    for name, type_ in fields:
        if name not in _TYPES:
            near = get_close_matches(name, _TYPES, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(_TYPES)}"
            raise OptionError(f"A record has no column '{name}': {hint}")
        if type_ != _TYPES[name]:
            raise OptionError(f"Column '{name}' is {_TYPES[name]}, not {type_}: read it as that and cast it")
        names.append(Column(name))
    if not names:
        raise OptionError("A schema without columns reads nothing: name at least one, for example offset long")
    return tuple(names)
