"""The errors that answers carry, counted where all answers pass, by where the answer's class keeps them."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from penstock.broker.error_codes import NONE

Note = Callable[[Any, Counter[str]], None]


def note_errors(response: Any, errors: Counter[str]) -> None:
    """Adds every error in the answer and its rows, under Kafka's name for it."""
    shape = type(response)
    note = _notes[shape] if shape in _notes else _note_for(shape)
    if note is not None:
        note(response, errors)


# Made when a class is first seen; there are only so many.
_notes: dict[type, Note | None] = {}


def _note_for(shape: type) -> Note | None:
    """None: nothing in such a row has room for an error."""
    if shape not in _notes:
        _notes[shape] = _make_note(shape) if hasattr(shape, "__annotations__") else None
    return _notes[shape]


def _make_note(shape: type) -> Note | None:
    kinds = typing.get_type_hints(shape)
    has_code = "error_code" in kinds
    found = [(attrgetter(name), row, _note_for(row)) for name, kind in kinds.items() if (row := _row_of(kind))]
    inner = [(rows_of, note, _is_leaf(row)) for rows_of, row, note in found if note is not None]
    if not has_code and not inner:
        return None

    def note(row: Any, errors: Counter[str]) -> None:
        if has_code and row.error_code is not NONE:
            errors[row.error_code.name.upper()] += 1
        for rows_of, note_inner, is_leaf in inner:
            for each in rows_of(row) or ():
                # Most rows are leaves without an error: those cost no call.
                if not is_leaf or each.error_code is not NONE:
                    note_inner(each, errors)

    return note


def _is_leaf(row: type) -> bool:
    """Whether an error in it can only be its own."""
    kinds = typing.get_type_hints(row)
    return all(inner is None or _note_for(inner) is None for inner in map(_row_of, kinds.values()))


def _row_of(kind: Any) -> type | None:
    """The class of the elements, if the field is a sequence of rows."""
    for option in (kind, *typing.get_args(kind)):
        origin, arguments = typing.get_origin(option), typing.get_args(option)
        if isinstance(origin, type) and issubclass(origin, Sequence) and arguments and isinstance(arguments[0], type):
            return arguments[0]
    return None
