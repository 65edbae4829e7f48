"""The invoices of a month as one picture: a bar for each tenant, the largest first."""

from __future__ import annotations

import re
from decimal import Decimal
from html import escape

from penstock.pipelines.core.invoices import Bill, Invoices

# Beyond it a picture says less than the table.
MOST_BARS = 50

_WIDTH, _LABEL_WIDTH, _VALUE_WIDTH, _BAR_HEIGHT, _TOP = 1100, 260, 330, 20, 60
_CHART_WIDTH = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
_LABEL_CHARACTERS = 36
_COLOUR, _REST_COLOUR = "#2a7f62", "#8a8f98"
# What XML cannot say, whatever stands for it.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def chart(invoices: Invoices) -> str:
    """SVG. The same invoices are the same bytes."""
    bills = sorted(invoices.bills, key=lambda bill: (-bill.total, bill.tenant))
    shown, rest = bills[:MOST_BARS], bills[MOST_BARS:]
    bars = [(_name(bill.tenant), bill.total, _words(bill, invoices.currency), _COLOUR) for bill in shown]
    if rest:
        total = sum((bill.total for bill in rest), Decimal("0.00"))
        bars.append((f"{len(rest)} others", total, f"{total:,} {invoices.currency}", _REST_COLOUR))
    largest = max((total for _, total, _, _ in bars), default=Decimal(0))
    height = _TOP + _BAR_HEIGHT * len(bars) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(10, 22, f"Usage in {invoices.month}, by tenant", 'font-size="16" font-weight="bold"'),
        _text(10, 42, f"{invoices.total:,} {invoices.currency}, {len(bills)} tenants, {invoices.state}"),
    ]
    for number, (name, total, words, colour) in enumerate(bars):
        top = _TOP + _BAR_HEIGHT * number
        width = float(total / largest) * _CHART_WIDTH if largest else 0.0
        parts += [
            _text(_LABEL_WIDTH - 8, top + 14, name, 'text-anchor="end"'),
            f'<rect x="{_LABEL_WIDTH}" y="{top + 3}" width="{max(1.0, width):.1f}" height="{_BAR_HEIGHT - 6}" '
            f'fill="{colour}"/>',
            _text(_LABEL_WIDTH + max(1.0, width) + 8, top + 14, words),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _words(bill: Bill, currency: str) -> str:
    each = bill.per_million_messages
    return f"{bill.total:,} {currency}" + (f" ({each:,} per million messages)" if each is not None else "")


def _name(tenant: str) -> str:
    if not tenant:
        return "(no client id)"
    return tenant if len(tenant) <= _LABEL_CHARACTERS else f"{tenant[: _LABEL_CHARACTERS - 1]}…"


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {attributes}>{escape(_NO_XML.sub("�", words))}</text>'
