"""Invoices as text and as a picture."""

from __future__ import annotations

import csv
from decimal import Decimal
from io import StringIO
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.core.invoice_chart import MOST_BARS, chart
from penstock.pipelines.core.invoices import BilledRow, Invoices
from penstock.pipelines.core.price_book import Item

SVG = "{http://www.w3.org/2000/svg}"


def row(
    tenant: str, amount: str, item: Item = Item.MESSAGES_IN, about: str = "2026-11", quantity: int = 10
) -> BilledRow:
    return BilledRow("2026-11", about, tenant, item, quantity, Decimal("0.400000"), Decimal(amount))


def invoices(*rows: BilledRow, is_final: bool = True) -> Invoices:
    return Invoices.of("2026-11", "EUR", rows, is_final=is_final)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def test_lines_are_rounded_and_totals_are_their_sums() -> None:
    found = invoices(
        row("bolt", "7"),
        row("acme", "0.005", about="2026-10"),
        row("acme", "0.014999999999999", Item.REQUESTS, quantity=5),
        row("acme", "1.005", quantity=3_000_000),
    )
    assert found.lines_csv() == (
        "month,state,tenant,item,correction_of,quantity,unit,price,amount,currency\n"
        "2026-11,final,acme,messages_in,,3000000,million,0.4,1.01,EUR\n"
        "2026-11,final,acme,requests,,5,million,0.4,0.01,EUR\n"
        "2026-11,final,acme,messages_in,2026-10,10,million,0.4,0.01,EUR\n"
        "2026-11,final,bolt,messages_in,,10,million,0.4,7.00,EUR\n"
    )
    assert found.totals_csv() == (
        "month,state,tenant,messages_in,messages_out,bytes_in,bytes_out,requests,amount,per_million_messages,currency\n"
        "2026-11,final,acme,3000010,0,0,0,5,1.03,0.3417,EUR\n"
        "2026-11,final,bolt,10,0,0,0,0,7.00,700000.0000,EUR\n"
    )
    assert found.total == Decimal("8.03")


def test_what_is_not_final_says_so_and_requests_alone_are_no_messages() -> None:
    found = invoices(row("acme", "1", Item.REQUESTS), is_final=False)
    (total,) = read(found.totals_csv())
    assert (total["state"], total["per_million_messages"]) == ("open", "")
    assert "open" in chart(found)


def test_a_million_messages_have_their_price_where_few_cost_no_cent() -> None:
    (total,) = read(invoices(row("acme", "0.0004", quantity=1000)).totals_csv())
    assert (total["amount"], total["per_million_messages"]) == ("0.00", "0.4000")


def test_names_are_no_formulas_and_no_markup() -> None:
    names = ["=1+1", "'=1+1", "+a", "-a", "@a", "a,b\n", '<b>"', "\x00\x1b", ""]
    found = invoices(*(row(name, "1") for name in names))
    cells = [line["tenant"] for line in read(found.lines_csv())]
    assert sorted(cells) == sorted(["'=1+1", "''=1+1", "'+a", "'-a", "'@a", "a,b\n", '<b>"', "\x00\x1b", ""])
    texts = [part.text for part in ElementTree.fromstring(chart(found)).iter(f"{SVG}text")]
    assert '<b>"' in texts
    assert "��" in texts
    assert "(no client id)" in texts


def test_the_largest_are_shown_and_the_rest_together() -> None:
    found = invoices(*(row(f"t{number}", str(number)) for number in range(MOST_BARS + 5)))
    picture = ElementTree.fromstring(chart(found))
    texts = [part.text for part in picture.iter(f"{SVG}text")]
    assert texts[2] == f"t{MOST_BARS + 4}"
    assert "5 others" in texts
    assert "10.00 EUR" in texts
    widths = [float(bar.attrib["width"]) for bar in picture.iter(f"{SVG}rect")][1:]
    assert widths[0] == max(widths)
    assert len(widths) == MOST_BARS + 1
    assert chart(invoices()).startswith("<svg")


@given(st.permutations([row(name, amount) for name in ("a", "b", "c") for amount in ("1.5", "0.01")]))
def test_the_same_rows_are_the_same_bytes(rows: list[BilledRow]) -> None:
    rows = [found._replace(price=found.amount) for found in rows]
    wanted = invoices(*sorted(rows))
    found = invoices(*rows)
    assert (found.lines_csv(), found.totals_csv(), chart(found)) == (
        wanted.lines_csv(),
        wanted.totals_csv(),
        chart(wanted),
    )
