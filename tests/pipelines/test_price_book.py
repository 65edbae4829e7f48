"""The price book: what it says, and how it is refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.core.price_book import Item, PriceBook
from penstock.pipelines.core.refusal import PipelineRefused

EXAMPLE = Path(__file__).parents[2] / "examples" / "price-book.toml"
EVERYBODY = 'currency = "EUR"\n[[price]]\nfrom = 2026-01-01\n'


def hour(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 3600


def test_prices_count_from_their_hour_on_and_a_tenants_own_alone() -> None:
    book = PriceBook.parse(EXAMPLE.read_bytes())
    assert book.currency == "EUR"
    assert book.prices("bolt", hour("2026-12-31T23:00"))[Item.BYTES_OUT] == 90_000
    assert book.prices("bolt", hour("2027-01-01T00:00"))[Item.BYTES_OUT] == 80_000
    # Midnight by its own clock is ten in the evening by UTC.
    assert book.prices("acme", hour("2026-06-30T21:00"))[Item.MESSAGES_IN] == 400_000
    acme = book.prices("acme", hour("2026-06-30T22:00"))
    assert (acme[Item.MESSAGES_IN], acme[Item.BYTES_OUT], acme[Item.REQUESTS]) == (300_000, 50_000, 0)
    assert book.prices("acme", hour("2030-01-01T00:00")) == acme
    # Tasks get it so.
    assert pickle.loads(pickle.dumps(book)) == book


def test_usage_before_the_first_price_is_refused() -> None:
    book = PriceBook.parse(EXAMPLE.read_bytes())
    book.check_from(hour("2026-01-01T00:00"))
    with pytest.raises(PipelineRefused, match=r"no price for everybody before 2026-01-01T00:00Z.*2025-12-31T23:00Z"):
        book.check_from(hour("2025-12-31T23:00"))


def test_order_in_the_book_does_not_matter() -> None:
    first, later = (f"[[price]]\nfrom = 2026-0{month}-01\nper_gb_in = {month}\n" for month in (1, 2))
    one, other = (PriceBook.parse(f'currency = "EUR"\n{text}'.encode()) for text in (first + later, later + first))
    assert one == other
    assert one.prices("a", hour("2026-01-31T23:00"))[Item.BYTES_IN] == 1_000_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("currency", "is no TOML"),
        ("", 'must say its currency, as in currency = "EUR"'),
        ('currency = "euro"', "must say its currency"),
        ('currency = "EUR"', r"has no prices: write them below a line \[\[price\]\]"),
        ('currency = "EUR"\nprice = 3', "has no prices"),
        ('currency = "EUR"\nprices = []', "the price book: prices is unknown; there are currency, price"),
        (
            EVERYBODY + "per_gb = 1",
            "price 1 of the price book: per_gb is unknown; there are tenant, from, per_million_",
        ),
        (EVERYBODY + "tenant = 3", 'a tenant is written as in tenant = "acme"'),
        (EVERYBODY + 'tenant = "acme"', r"for tenants only: add a \[\[price\]\] without a tenant"),
        (EVERYBODY + 'per_gb_in = "1"', "per_gb_in is no number"),
        (EVERYBODY + "per_gb_in = true", "per_gb_in is no number"),
        (EVERYBODY + "per_gb_in = nan", "per_gb_in is no number"),
        (EVERYBODY + "per_gb_in = -0.1", "per_gb_in is -0.1: prices are from 0 to 1000000"),
        (EVERYBODY + "per_gb_in = 1e7", "prices are from 0 to"),
        (EVERYBODY + "per_gb_in = 0.1234567", "at most 6 decimal places"),
        (EVERYBODY + "per_gb_in = 0.1" + "0" * 40 + "1", "at most 6 decimal places"),
        ('currency = "EUR"\n[[price]]\nper_gb_in = 1', "say from when"),
        ('currency = "EUR"\n[[price]]\nfrom = 2026-01-01T00:00:00', "say from when"),
        ('currency = "EUR"\n[[price]]\nfrom = 2026-01-01T00:30:00Z', "prices can only begin with one"),
        (EVERYBODY + "[[price]]\nfrom = 2026-01-01T01:00:00+01:00", "price 2 .* everybody has prices from that hour"),
        (
            EVERYBODY + 2 * '[[price]]\nfrom = 2026-01-01\ntenant = "a"\n',
            "tenant 'a' has prices from that hour already",
        ),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(PipelineRefused, match=words):
        PriceBook.parse(text.encode())


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(PipelineRefused, match="is no TOML: 'utf-8' codec can't decode"):
        PriceBook.parse(b"\xff")


@given(st.integers(0, 10**12), st.sampled_from(list(Item)))
def test_what_one_costs_is_exact(millionths: int, item: Item) -> None:
    of_one = item.amount_of_one(millionths)
    assert of_one * item.unit_size * 10**6 == millionths
    assert len(of_one.as_tuple().digits) <= 16


@given(st.integers(-5000, 30_000), st.sampled_from(["acme", "bolt"]))
def test_periods_say_what_prices_do(after: int, tenant: str) -> None:
    book = PriceBook.parse(EXAMPLE.read_bytes())
    now = hour("2026-01-01T00:00") + after
    whose = tenant if tenant in book.tenants else None
    found = [
        period.prices
        for period in book.periods()
        if period.tenant == whose and period.from_hour <= now and (period.end_hour is None or now < period.end_hour)
    ]
    assert found == ([book.prices(tenant, now)] if after >= 0 else [])
