"""What usage costs: a price book in TOML, as in examples/price-book.toml.

Prices are for everybody or for one tenant, and count for hours that begin at their `from` or later, until the next
ones of the same kind do. A tenant with prices of its own pays those alone; before their first `from` it pays what
everybody does.

Prices are in millionths, and amounts have 15 decimal places, which is what a byte at a millionth per GB costs. So
sums are exact, in whatever order, and rounding happens once, where a line of an invoice is written.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from penstock.pipelines.core.refusal import PipelineRefused

AMOUNT_DIGITS = 15
PRICE_DIGITS = 6
# Beyond it somebody has mistaken the unit; below it amounts have room in a decimal of 38 digits.
HIGHEST_PRICE = 1_000_000

_HOUR_S = 3600
_MILLIONTH = Decimal(1).scaleb(-PRICE_DIGITS)
_CURRENCY = re.compile(r"[A-Z]{3}")
_ENTRY_NAMES = ("tenant", "from")


class Item(Enum):
    """What is billed, each with its price's name in the book and the unit that this price is for."""

    MESSAGES_IN = "messages_in", "per_million_messages_in", "million", 10**6
    MESSAGES_OUT = "messages_out", "per_million_messages_out", "million", 10**6
    BYTES_IN = "bytes_in", "per_gb_in", "GB", 10**9
    BYTES_OUT = "bytes_out", "per_gb_out", "GB", 10**9
    REQUESTS = "requests", "per_million_requests", "million", 10**6

    def __init__(self, label: str, price_name: str, unit: str, unit_size: int) -> None:
        self.label = label
        self.price_name = price_name
        self.unit = unit
        self.unit_size = unit_size

    def amount_of_one(self, price_millionths: int) -> Decimal:
        """What one message, byte or request costs, with AMOUNT_DIGITS decimal places."""
        return Decimal(price_millionths * (10**9 // self.unit_size)).scaleb(-AMOUNT_DIGITS)


ITEMS = {item.label: item for item in Item}
_PRICE_NAMES = {item.price_name: item for item in Item}

Prices = Mapping[Item, int]


@dataclass(frozen=True)
class _Series:
    """Prices of one tenant, or of everybody: from which hour on, and what."""

    from_hours: tuple[int, ...]
    prices: tuple[Prices, ...]

    def at(self, hour: int) -> Prices | None:
        place = bisect_right(self.from_hours, hour)
        return self.prices[place - 1] if place else None


class Period(NamedTuple):
    """`tenant` None: of all that have none of their own. `end_hour` None: until further notice."""

    tenant: str | None
    from_hour: int
    end_hour: int | None
    prices: Prices


@dataclass(frozen=True)
class PriceBook:
    currency: str
    everybody: _Series
    tenants: Mapping[str, _Series]

    @classmethod
    def parse(cls, content: bytes) -> PriceBook:
        """Raises PipelineRefused with what is wrong and where."""
        try:
            document = tomllib.loads(content.decode(), parse_float=Decimal)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PipelineRefused(f"the price book is no TOML: {error}") from None
        _check_names("the price book", document, ("currency", "price"))
        currency = document.get("currency")
        if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
            raise PipelineRefused('the price book must say its currency, as in currency = "EUR"')
        entries = document.get("price")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise PipelineRefused("the price book has no prices: write them below a line [[price]]")
        found: dict[str | None, dict[int, Prices]] = {}
        for number, entry in enumerate(entries, 1):
            tenant, hour, prices = _entry(f"price {number} of the price book", entry)
            if hour in found.setdefault(tenant, {}):
                whose = "everybody" if tenant is None else f"tenant {tenant!r}"
                raise PipelineRefused(f"price {number} of the price book: {whose} has prices from that hour already")
            found[tenant][hour] = prices
        if None not in found:
            raise PipelineRefused("the price book has prices for tenants only: add a [[price]] without a tenant")
        series = {
            tenant: _Series(*zip(*sorted(rows.items(), key=_hour), strict=True)) for tenant, rows in found.items()
        }
        everybody = series.pop(None)
        return cls(currency, everybody, {tenant: rows for tenant, rows in series.items() if tenant is not None})

    def check_from(self, hour: int) -> None:
        """Raises PipelineRefused unless there is a price for every tenant from this hour on."""
        first = self.everybody.from_hours[0]
        if hour < first:
            raise PipelineRefused(
                f"the price book has no price for everybody before {_moment(first)}, but there is usage in the hour of "
                f"{_moment(hour)}: add an earlier [[price]] without a tenant"
            )

    def periods(self) -> Iterator[Period]:
        """Of everybody, and then of each tenant with prices of its own, from the first price on without a hole."""
        yield from _periods(None, self.everybody.from_hours, self.everybody.prices)
        for tenant, own in self.tenants.items():
            first = self.everybody.from_hours[0]
            begins = sorted(hour for hour in {*self.everybody.from_hours, *own.from_hours} if hour >= first)
            yield from _periods(tenant, begins, [self.prices(tenant, hour) for hour in begins])

    def prices(self, tenant: str, hour: int) -> Prices:
        """Of an hour that was checked."""
        own = self.tenants.get(tenant)
        found = own.at(hour) if own is not None else None
        if found is None:
            found = self.everybody.at(hour)
        assert found is not None
        return found


def _periods(tenant: str | None, begins: Sequence[int], prices: Sequence[Prices]) -> Iterator[Period]:
    for begin, end, found in zip(begins, [*begins[1:], None], prices, strict=True):
        yield Period(tenant, begin, end, found)


def _entry(where: str, entry: dict[str, Any]) -> tuple[str | None, int, Prices]:
    _check_names(where, entry, (*_ENTRY_NAMES, *_PRICE_NAMES))
    tenant = entry.get("tenant")
    if tenant is not None and not isinstance(tenant, str):
        raise PipelineRefused(f'{where}: a tenant is written as in tenant = "acme"')
    prices = {item: _millionths(f"{where}: {name}", entry.get(name, 0)) for name, item in _PRICE_NAMES.items()}
    return tenant, _from_hour(where, entry.get("from")), prices


def _check_names(where: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            raise PipelineRefused(f"{where}: {name} is unknown; there are {', '.join(known)}")


def _from_hour(where: str, begin: object) -> int:
    if isinstance(begin, date) and not isinstance(begin, datetime):
        begin = datetime.combine(begin, time(), UTC)
    if not isinstance(begin, datetime) or begin.tzinfo is None:
        raise PipelineRefused(f"{where}: say from when, as in from = 2026-07-01 (UTC) or 2026-07-01T06:00:00+02:00")
    hour, rest = divmod(begin.timestamp(), _HOUR_S)
    if rest:
        raise PipelineRefused(f"{where}: usage is summed by the hour (UTC), so prices can only begin with one")
    return int(hour)


def _millionths(where: str, price: object) -> int:
    # A bool is an int to Python, but no price.
    if isinstance(price, bool) or not isinstance(price, int | Decimal):
        raise PipelineRefused(f"{where} is no number")
    if isinstance(price, Decimal) and not price.is_finite():
        raise PipelineRefused(f"{where} is no number")
    if not 0 <= price <= HIGHEST_PRICE:
        raise PipelineRefused(f"{where} is {price}: prices are from 0 to {HIGHEST_PRICE}")
    rounded = Decimal(price).quantize(_MILLIONTH)
    if rounded != price:
        raise PipelineRefused(f"{where} is {price}: prices have at most {PRICE_DIGITS} decimal places")
    return int(rounded.scaleb(PRICE_DIGITS))


def _hour(row: tuple[int, Prices]) -> int:
    return row[0]


def _moment(hour: int) -> str:
    return datetime.fromtimestamp(hour * _HOUR_S, UTC).strftime("%Y-%m-%dT%H:00Z")
