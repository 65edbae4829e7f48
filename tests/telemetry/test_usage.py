"""Counting by tenant, topic and API, within bounds."""

from __future__ import annotations

from penstock.telemetry.usage import MAX_TENANT_CHARACTERS, NO_TOPIC, OTHER, Series, Usage, tenant_of


def rows(taken: list[Series]) -> set[tuple[str, str, str, int, int, int]]:
    return {(row.tenant, row.topic, row.api, row.messages, row.size_bytes, row.requests) for row in taken}


def test_a_tenant_is_its_client_ids_up_to_the_first_dot_and_never_long() -> None:
    assert tenant_of("acme.billing.3") == "acme"
    assert tenant_of("acme") == "acme"
    assert tenant_of("") == tenant_of(".acme") == ""
    assert tenant_of("x" * 30_000) == "x" * MAX_TENANT_CHARACTERS


def test_what_is_counted_is_taken_once() -> None:
    usage = Usage(10)
    produce, fetch = usage.of_api("Produce"), usage.of_api("Fetch")
    produce.count("acme", "orders", 3, 300, 1)
    produce.count("acme", "orders", 2, 200, 1)
    produce.count("acme", "returns", 1, 10, 0)
    fetch.count("acme", "orders", 5, 500, 1)
    fetch.count("bolt", NO_TOPIC, 0, 0, 1)
    assert rows(usage.take()) == {
        ("acme", "orders", "Produce", 5, 500, 2),
        ("acme", "returns", "Produce", 1, 10, 0),
        ("acme", "orders", "Fetch", 5, 500, 1),
        ("bolt", NO_TOPIC, "Fetch", 0, 0, 1),
    }
    assert usage.take() == []
    produce.count("acme", "orders", 1, 100, 1)
    assert rows(usage.take()) == {("acme", "orders", "Produce", 1, 100, 1)}


def test_who_holds_the_series_of_an_api_sees_those_of_the_next_interval() -> None:
    usage = Usage(10)
    produce = usage.of_api("Produce")
    series = produce.series
    produce.find("acme", "orders").messages += 1
    usage.take()
    assert not series
    produce.find("acme", "orders").messages += 2
    series["acme"]["orders"].messages += 3
    assert rows(usage.take()) == {("acme", "orders", "Produce", 5, 0, 0)}


def test_the_series_beyond_the_limit_are_one_for_each_api_and_lose_no_count() -> None:
    usage = Usage(10_000)
    produce, metadata = usage.of_api("Produce"), usage.of_api("Metadata")
    for tenant in range(10_001):
        produce.count(f"tenant-{tenant}", "orders", 1, 10, 1)
    for tenant in range(5):
        metadata.count(f"late-{tenant}", NO_TOPIC, 0, 0, 1)
    # What is known goes on to be told apart.
    produce.count("tenant-0", "orders", 1, 10, 1)
    taken = usage.take()
    assert len(taken) == 10_002
    assert sum(row.messages for row in taken) == 10_002
    others = rows([row for row in taken if row.tenant == OTHER])
    assert others == {(OTHER, OTHER, "Produce", 1, 10, 1), (OTHER, OTHER, "Metadata", 0, 0, 5)}
    # Room is made by the interval's end, so that tenants that have gone do not keep others out.
    metadata.count("late-0", NO_TOPIC, 0, 0, 1)
    assert rows(usage.take()) == {("late-0", NO_TOPIC, "Metadata", 0, 0, 1)}
