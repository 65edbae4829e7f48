"""How a setting is declared, parsed and checked."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from penstock.errors import PenstockError, Problem


class Scope(Enum):
    """Where a setting can be given: for the whole node only, or per topic with the node's value as default."""

    NODE = "node"
    TOPIC = "topic"


@dataclass(frozen=True)
class Setting:
    """What is known about one setting; read from a section with `settings_of`.

    `kind` is bool, int, float, str, or a type with `parse(text)`, which raises ValueError, and `wanted`, which says
    what it takes. What must not be seen has `is_secret` and hides itself in `str`.
    """

    name: str
    field: str
    kind: type
    default: Any
    doc: str
    scope: Scope
    dynamic: bool
    at_least: int | None
    at_most: int | None
    one_of: tuple[str, ...]

    def parse(self, text: str) -> Any:
        """The typed value, or a PenstockError that says what would have been right."""
        value = self._convert(text.strip())
        # Said this way round, because of "nan" nothing is true.
        if self.at_least is not None and not value >= self.at_least:
            raise self._refuse(text, f"at least {self.at_least}")
        if self.at_most is not None and not value <= self.at_most:
            raise self._refuse(text, f"at most {self.at_most}")
        if self.one_of:
            # A comma separates several, as in cleanup.policy=compact,delete.
            for part in value.split(","):
                if part.strip() not in self.one_of:
                    raise self._refuse(text, "one of " + ", ".join(self.one_of))
        return value

    def _convert(self, text: str) -> Any:
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise self._refuse(text, "true or false")
            return text.lower() == "true"
        try:
            return getattr(self.kind, "parse", self.kind)(text)
        except ValueError:
            wanted = {int: "a whole number", float: "a number"}.get(self.kind, getattr(self.kind, "wanted", "text"))
            raise self._refuse(text, wanted) from None

    def _refuse(self, text: str, wanted: str) -> PenstockError:
        shown = "…" if getattr(self.kind, "is_secret", False) else repr(text)
        return PenstockError(Problem.INVALID_CONFIG, f"{self.name}={shown} is not valid: it must be {wanted}")

    def show(self, value: Any) -> str:
        return str(value).lower() if self.kind is bool else str(value)


def setting(
    default: Any,
    *,
    name: str,
    doc: str,
    dynamic: bool = False,
    at_least: int | None = None,
    at_most: int | None = None,
    one_of: tuple[str, ...] = (),
) -> Any:
    """One field of a section. `dynamic`: a change takes effect without a restart."""
    facts = {
        "name": name,
        "doc": doc,
        "dynamic": dynamic,
        "at_least": at_least,
        "at_most": at_most,
        "one_of": one_of,
    }
    return dataclasses.field(default=default, metadata=facts)


class Section:
    """Base of all sections: frozen, comparable, overridable by name."""

    scope: ClassVar[Scope]

    def overridden_by(self, values: Mapping[str, str]) -> Self:
        """A copy with those settings of this section that `values` names; others in `values` are ignored."""
        known = {item.name: item for item in settings_of(type(self))}
        changes = {known[name].field: known[name].parse(text) for name, text in values.items() if name in known}
        return dataclasses.replace(self, **changes) if changes else self  # type: ignore[type-var]


C = TypeVar("C", bound=type)


# `setting` is no field specifier here: type checkers know a specifier's default by keyword only, and so take what
# stands right of the equals sign for the default, which is what it comes to.
@dataclass_transform(frozen_default=True)
def section(*, scope: Scope) -> Callable[[C], C]:
    """Makes a subclass of `Section` a frozen dataclass of settings."""

    def decorate(cls: C) -> C:
        cls.scope = scope  # type: ignore[attr-defined]
        return typing.cast(C, dataclass(frozen=True)(cls))

    return decorate


def settings_of(section_type: type[Section]) -> list[Setting]:
    kinds = typing.get_type_hints(section_type)
    return [
        Setting(
            field=field.name,
            kind=kinds[field.name],
            default=field.default,
            scope=section_type.scope,
            **field.metadata,
        )
        for field in dataclasses.fields(section_type)  # type: ignore[arg-type]
    ]
