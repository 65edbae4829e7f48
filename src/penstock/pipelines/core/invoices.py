"""Invoices: the billing rows of a month, added up and written as text. The same rows are the same bytes.

A line is what one tenant owes for one item at one price, in its own month or, as a correction, for an earlier one.
Each line is rounded to cents, and totals are sums of lines: an invoice adds up for whoever checks it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from io import StringIO
from typing import NamedTuple

from penstock.pipelines.core.price_book import Item

_CENT = Decimal("0.01")
# Room for every digit of an amount: nothing is rounded but where it is said.
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
# Spreadsheets take what begins like this for a formula, and tenants are named by whoever connects.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


class BilledRow(NamedTuple):
    """As the billing table has it, added up over hours. `about` is the month that it was used in."""

    month: str
    about: str
    tenant: str
    item: Item
    quantity: int
    price: Decimal
    amount: Decimal


@dataclass(frozen=True)
class Line:
    row: BilledRow

    @property
    def is_correction(self) -> bool:
        return self.row.about != self.row.month

    @property
    def cents(self) -> Decimal:
        return self.row.amount.quantize(_CENT, context=_EXACT)


@dataclass(frozen=True)
class Bill:
    """Of one tenant."""

    tenant: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> Decimal:
        return sum((line.cents for line in self.lines), Decimal("0.00"))

    def quantity(self, *items: Item) -> int:
        return sum(line.row.quantity for line in self.lines if line.row.item in items)

    @property
    def per_million_messages(self) -> Decimal | None:
        """What a million messages cost, sent or received, with all that belongs to them. None if there were none."""
        messages = self.quantity(Item.MESSAGES_IN, Item.MESSAGES_OUT)
        if not messages:
            return None
        # Of what is owed before it is rounded: a bill of no cent has its price too.
        amount = sum((line.row.amount for line in self.lines), Decimal(0))
        cost = _EXACT.divide(_EXACT.multiply(amount, Decimal(10**6)), Decimal(messages))
        return cost.quantize(Decimal("0.0001"), context=_EXACT)


@dataclass(frozen=True)
class Invoices:
    """Of all tenants for one month, in the order of their names. Not `is_final`: more will come."""

    month: str
    currency: str
    is_final: bool
    bills: tuple[Bill, ...]

    @classmethod
    def of(cls, month: str, currency: str, rows: Iterable[BilledRow], *, is_final: bool) -> Invoices:
        by_tenant: dict[str, list[Line]] = {}
        for row in sorted(rows, key=_order):
            by_tenant.setdefault(row.tenant, []).append(Line(row))
        bills = tuple(Bill(tenant, tuple(lines)) for tenant, lines in sorted(by_tenant.items()))
        return cls(month, currency, is_final, bills)

    @property
    def state(self) -> str:
        return "final" if self.is_final else "open"

    @property
    def total(self) -> Decimal:
        return sum((bill.total for bill in self.bills), Decimal("0.00"))

    def lines_csv(self) -> str:
        names = ["month", "state", "tenant", "item", "correction_of", "quantity", "unit", "price", "amount", "currency"]
        return csv_text(
            names,
            (
                (
                    self.month,
                    self.state,
                    bill.tenant,
                    line.row.item.label,
                    line.row.about if line.is_correction else "",
                    line.row.quantity,
                    line.row.item.unit,
                    _plain(line.row.price),
                    line.cents,
                    self.currency,
                )
                for bill in self.bills
                for line in bill.lines
            ),
        )

    def totals_csv(self) -> str:
        names = [item.label for item in Item]
        return csv_text(
            ["month", "state", "tenant", *names, "amount", "per_million_messages", "currency"],
            (
                (
                    self.month,
                    self.state,
                    bill.tenant,
                    *(bill.quantity(item) for item in Item),
                    bill.total,
                    "" if bill.per_million_messages is None else bill.per_million_messages,
                    self.currency,
                )
                for bill in self.bills
            ),
        )


def csv_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A text that a spreadsheet could take for a formula has an apostrophe before it."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_safe(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULAS) else cell


def _plain(price: Decimal) -> str:
    """Without zeros that say nothing, and never with an exponent."""
    return f"{price.normalize():f}"


def _order(row: BilledRow) -> tuple[str, str, int, Decimal]:
    # What was used in the month comes first, corrections behind it.
    about = "" if row.about == row.month else row.about
    return row.tenant, about, list(Item).index(row.item), row.price
