"""What usage costs: a table of amounts by hour, tenant and item, and the invoices that it adds up to.

Every closing of the hours is billed once, at the prices that the book has for its hours then; rows are never
changed. A book that is changed later is for what is billed later, corrections included.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.pipelines.core.closing import is_closed
from penstock.pipelines.core.invoices import BilledRow, Invoices
from penstock.pipelines.core.ledger import Ledger, Range
from penstock.pipelines.core.price_book import AMOUNT_DIGITS, ITEMS, PRICE_DIGITS, Item, PriceBook
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Target
from penstock.pipelines.table_rows import TableRows
from penstock.pipelines.usage_hours import UsageHours
from penstock.units import HOUR_MS

SCHEMA = pa.schema(
    [
        ("timestamp", pa.timestamp("us", "UTC")),
        ("tenant", pa.string()),
        ("item", pa.string()),
        ("quantity", pa.int64()),
        ("price", pa.decimal128(13, PRICE_DIGITS)),
        ("amount", pa.decimal128(38, AMOUNT_DIGITS)),
        ("currency", pa.string()),
        ("is_correction", pa.bool_()),
        ("month", pa.string()),
        ("invoice", pa.string()),
    ]
)

_COLUMNS = (
    f"timestamp timestamp, tenant string, item string, quantity long, price decimal(13, {PRICE_DIGITS}), "
    f"amount decimal(38, {AMOUNT_DIGITS}), currency string, is_correction boolean, month string, invoice string"
)
# As what the ledger knows the closings that are billed, and in which currency: one table has one.
_CLOSINGS = "closings in "


class UsageBilling:
    def __init__(self, session: SparkSession, target: Target) -> None:
        self._session = session
        self._target = target
        self._table = TableRows(session, target, SCHEMA, "billing")

    def bill(self, hours: UsageHours, closed: Ledger, book: PriceBook) -> int:
        """All closings up to `closed` that are not billed yet. How many rows that has added."""
        known = self._table.ledger()
        self._check_currency(known, book.currency)
        begin = known.batch_id + 1 if known is not None else 0
        if closed.batch_id < begin:
            return 0
        used = hours.rows(begin, closed.batch_id)
        first_ms = used.agg(f.min(f.unix_millis("timestamp"))).collect()[0][0]
        if first_ms is not None:
            book.check_from(first_ms // HOUR_MS)
        rows = _priced(self._session, used, book)
        billed = Range(_CLOSINGS + book.currency, 0, begin, closed.batch_id + 1)
        files = self._table.commit(closed.batch_id, [billed], rows, even_empty=True)
        return sum(file.rows for file in files or ())

    def invoices(self, open_hour: int) -> Iterator[Invoices]:
        """Of every month, in order. `open_hour`: all before it are final and billed."""
        added = (
            self._table.read(_COLUMNS)
            .groupBy("invoice", "month", "tenant", "item", "price", "currency")
            .agg(f.sum("quantity").alias("quantity"), f.sum("amount").alias("amount"))
            .orderBy("invoice")
            .collect()
        )
        for month, group in groupby(added, key=lambda row: str(row["invoice"])):
            lines = list(group)
            billed = [
                BilledRow(month, row["month"], row["tenant"], ITEMS[row["item"]], *_numbers(row)) for row in lines
            ]
            yield Invoices.of(month, lines[0]["currency"], billed, is_final=is_closed(month, open_hour))

    def _check_currency(self, known: Ledger | None, currency: str) -> None:
        for found in known.ranges if known is not None else ():
            if (other := found.topic.removeprefix(_CLOSINGS)) != currency:
                raise PipelineRefused(
                    f"the bills in {self._target} are in {other}, and the price book in {currency}: use another table"
                )


def _numbers(row: Any) -> tuple[int, Decimal, Decimal]:
    return row["quantity"], row["price"], row["amount"]


def _quantities(used: DataFrame) -> DataFrame:
    """A column for each item, and the hour's number for the price book."""

    def of(api: str, name: str) -> Column:
        return f.sum(f.when(f.col("api") == api, f.col(name)).otherwise(0))

    sums = {
        Item.MESSAGES_IN: of("Produce", "messages"),
        Item.MESSAGES_OUT: of("Fetch", "messages"),
        Item.BYTES_IN: of("Produce", "bytes"),
        Item.BYTES_OUT: of("Fetch", "bytes"),
        Item.REQUESTS: f.sum("requests"),
    }
    hour = f.expr(f"unix_millis(timestamp) div {HOUR_MS}")
    by_hour = used.withColumn("hour_number", hour).groupBy(
        "timestamp", "hour_number", "tenant", "is_correction", "month", "invoice"
    )
    return by_hour.agg(*(quantity.alias(item.label) for item, quantity in sums.items()))


def _priced(session: SparkSession, used: DataFrame, book: PriceBook) -> DataFrame:
    """Amounts are products of decimals that have room for every digit."""
    rows = [
        (
            period.tenant,
            period.from_hour,
            period.end_hour,
            item.label,
            Decimal(price).scaleb(-PRICE_DIGITS),
            item.amount_of_one(price),
        )
        for period in book.periods()
        for item, price in period.prices.items()
    ]
    prices = session.createDataFrame(
        rows,
        f"whose string, from_hour long, end_hour long, priced string, price decimal(13, {PRICE_DIGITS}), "
        f"of_one decimal(17, {AMOUNT_DIGITS})",
    )
    whose = f.when(f.col("tenant").isin(*book.tenants), f.col("tenant")) if book.tenants else f.lit(None)
    is_in_time = (f.col("hour_number") >= f.col("from_hour")) & (
        f.col("end_hour").isNull() | (f.col("hour_number") < f.col("end_hour"))
    )
    items = f.array(*(f.struct(f.lit(item.label).alias("item"), f.col(item.label).alias("quantity")) for item in Item))
    facts = ("timestamp", "hour_number", "tenant", "is_correction", "month", "invoice")
    return (
        _quantities(used)
        .select(*facts, f.explode(items).alias("billed"))
        .select(*facts, "billed.*")
        .where("quantity > 0")
        .join(
            f.broadcast(prices),
            (f.col("item") == f.col("priced")) & f.col("whose").eqNullSafe(whose.cast("string")) & is_in_time,
        )
        .withColumn("amount", f.col("quantity").cast("decimal(20, 0)") * f.col("of_one"))
        .withColumn("currency", f.lit(book.currency))
        .select(*SCHEMA.names)
    )
