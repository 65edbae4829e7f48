"""`usage`, from real requests to invoices: to the message what was sent, whatever is there twice, late or run again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection, answer_in, packed
from tests.interop.waiting import eventually
from tests.node.usage_topic import into_the_hour, read_records
from tests.spark.usage_events import append, event_of, late_events
from tests.spark.usage_run import PRICES, TENANTS, Counts, check_bills, contents, count, go, rows_of, run_of, used
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.pipelines.core.usage_gaps import Why
from penstock.pipelines.usage import TOPIC
from penstock.telemetry.usage_events import UsageEvents
from penstock.testing import TestNode, node
from penstock.units import HOUR_MS
from penstock.wire.records import Record

HOURS = 24
PRODUCE = "Produce"


@pytest.fixture(scope="module")
def metered() -> Iterator[tuple[TestNode, Counts]]:
    """A day of fifty tenants, and what they have sent."""
    with node({"usage.emit.interval.ms": str(HOUR_MS)}, ahead=into_the_hour()) as running:
        sent: Counts = Counter()
        for hour in range(HOURS):
            with RawConnection(running.bootstrap) as connection:
                if hour == 0:
                    connection.ask(requests.create_topic("orders"))
                for number, tenant in enumerate(TENANTS):
                    send(connection, tenant, (hour * 7 + number) % 13 + 1, sent)
            running.advance(hours=1)
            wait_for_records(running, hour + 1)
        yield running, sent


def wait_for_records(running: TestNode, wanted: int) -> None:
    eventually(lambda: len(read_records(running.bootstrap)) >= wanted, "usage is written down")


def send(connection: RawConnection, tenant: str, messages: int, sent: Counts) -> None:
    batch = good_batch(messages)
    request = requests.produce("orders", batch)
    connection.send_frame(packed(request, 1, f"{tenant}.web"))
    answer = answer_in(connection.receive_frame(), request, 1)
    assert answer.responses[0].partition_responses[0].error_code == 0
    count(sent, tenant, PRODUCE, messages, len(batch), 1)


def test_a_day_of_fifty_tenants(spark: SparkSession, metered: tuple[TestNode, Counts], tmp_path: Path) -> None:
    running, sent = metered
    bootstrap = running.bootstrap
    first = go(spark, run_of(bootstrap, TOPIC, tmp_path, prices=None), running.now_ms())
    # All but the hour that is not over.
    assert first.closed.hours in (HOURS - 1, HOURS)
    assert (first.closed.corrections, first.billed_rows, first.checked) == (0, 0, ([], 0))
    assert not (tmp_path / "usage_billing").exists()

    append(bootstrap, 0, read_records(bootstrap))
    day_ms = running.now_ms() - HOURS * HOUR_MS
    late = late_events(day_ms, sent)
    # By a clock that is ahead: what is not over is not final.
    ahead = UsageEvents(8, 300, day_ms, gap_before=False)
    late.append(event_of(ahead, running.now_ms() + 10**10, TENANTS[5], 10**6, Counter(), last=True))
    append(bootstrap, 1, [*late, *late])
    append(bootstrap, 2, [Record(0, running.now_ms(), b"key", b"not an event")])
    running.advance(hours=2)
    wait_for_records(running, 2 * HOURS + 2 * len(late) + 2)

    run = run_of(bootstrap, TOPIC, tmp_path)
    second = go(spark, run, running.now_ms())
    rows = [row for row in rows_of(run.tables.hours) if row["api"] == PRODUCE]
    assert used(rows) == sent
    corrections = [row for row in rows if row["is_correction"]]
    assert sorted((row["tenant"], row["messages"]) for row in corrections) == [
        (TENANTS[3], 1000),
        (TENANTS[4], 7),
        (TENANTS[4], 9),
    ]
    assert (second.closed.corrections, second.checked.doubles) == (3, HOURS + len(late))
    assert [(gap.node, gap.why, gap.to_ms) for gap in second.checked.gaps] == [
        (9, Why.KILLED, day_ms + 6 * HOUR_MS),
        (None, Why.UNREADABLE, None),
    ]
    check_bills(run, sent)
    assert list((tmp_path / "reports").glob("*.svg"))
    assert "the node ended without its last event" in (tmp_path / "reports" / "gaps.csv").read_text()

    prices = tmp_path / "prices.toml"
    prices.write_bytes(PRICES)
    before = contents(tmp_path)
    command = ["pipeline", "run", "usage", "--to", f"parquet:{tmp_path}/usage", "--reports", f"{tmp_path}/reports"]
    command += ["--prices", str(prices), "--late", "0", "--bootstrap", bootstrap, "--output", "json"]
    done = CliRunner().invoke(app, [*command, "--conf", "spark.sql.shuffle.partitions=2"])
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["events_archived"], said["rows"], said["rows_billed"], said["gaps"]) == (0, 0, 0, 2)
    assert contents(tmp_path) == before
