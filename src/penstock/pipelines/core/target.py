"""Which table, as people write it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.pipelines.core.refusal import PipelineRefused

WANTED = "parquet:PATH, delta:PATH or iceberg:CATALOG/NAMESPACE.TABLE"


class Kind(Enum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True)
class Target:
    """`where` is a directory, or a catalog and a name in it."""

    kind: Kind
    where: str

    @classmethod
    def parse(cls, text: str) -> Target:
        kind, colon, where = text.partition(":")
        where = where.rstrip("/")
        known = kind in {one.value for one in Kind}
        if not (known and colon and where) or "://" in text:
            raise PipelineRefused(f"{text!r} is no table: write {WANTED}")
        if kind == Kind.ICEBERG.value:
            catalog, slash, name = where.partition("/")
            if not (catalog and slash and "." in name.strip(".")):
                raise PipelineRefused(f"{text!r} is no Iceberg table: write iceberg:CATALOG/NAMESPACE.TABLE")
        return cls(Kind(kind), where)

    @property
    def unreadable(self) -> Target:
        """The table beside it, for records that do not fit the schema."""
        return Target(self.kind, f"{self.where}_unreadable")

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.where}"
