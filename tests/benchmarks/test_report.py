"""From measurements to verdicts, tables and the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import msgspec
import pytest
from benchmarks.cases import FULL, QUICK, all_cases, by_topic, selected
from benchmarks.load.job import Outcome
from benchmarks.peers.broker import Durability
from benchmarks.profile import self_and_total
from benchmarks.results import Measurement, Results, metrics_of
from benchmarks.targets import TARGETS, verdicts

from benchmarks import plot, report


def results_with(*measurements: Measurement) -> Results:
    return Results(
        command="python -m benchmarks --quick",
        date="2026-01-01 00:00 UTC",
        machine={"cores": "2"},
        settings={"os": {"penstock": "flush.policy=os", "kafka": "as delivered"}},
        measurements=list(measurements),
    )


def single(peer: str, number: int, rate: float) -> Measurement:
    return Measurement("os", "single-16", peer, number, {"messages/s": rate})


SIDE_BY_SIDE = results_with(
    single("penstock", 0, 30_000),
    single("kafka", 0, 15_000),
    single("kafka", 1, 10_000),
    single("penstock", 1, 20_000),
)


def test_values_come_in_the_order_of_their_rounds() -> None:
    assert SIDE_BY_SIDE.values("os", "single-16", "penstock", "messages/s") == [30_000, 20_000]
    assert SIDE_BY_SIDE.values("os", "single-16", "kafka", "messages/s") == [15_000, 10_000]


@pytest.mark.parametrize(("rate", "verdict"), [(15_000, "met"), (14_999, "fell short")])
def test_a_target_is_met_at_its_bound_and_not_below(rate: float, verdict: str) -> None:
    results = results_with(single("penstock", 0, rate), single("kafka", 0, 10_000))
    assert {each.case: each.words() for each in verdicts(results)}["single-16"] == verdict


@pytest.mark.parametrize(("took_ms", "verdict"), [(1.25, "met"), (1.26, "fell short")])
def test_a_cost_may_reach_its_bound_and_not_exceed_it(took_ms: float, verdict: str) -> None:
    results = results_with(
        Measurement("os", "latency-1000", "penstock", 0, {"p99 ms": took_ms}),
        Measurement("os", "latency-1000", "kafka", 0, {"p99 ms": 1.0}),
    )
    found = {(each.case, each.target.metric): each.words() for each in verdicts(results)}
    assert found["latency-1000", "p99 ms"] == verdict


def test_what_idle_connections_cost_is_judged_beside_our_own_rate_without_them() -> None:
    results = results_with(
        Measurement("os", "connections-100", "penstock", 0, {"messages/s": 100.0}),
        Measurement("os", "connections-100-idle-1000", "penstock", 0, {"messages/s": 89.0}),
        Measurement("os", "connections-100-idle-1000", "kafka", 0, {"messages/s": 1.0}),
    )
    (verdict,) = (each for each in verdicts(results) if each.case == "connections-100-idle-1000")
    assert (verdict.words(), verdict.other_side) == ("fell short", "connections-100")


def test_every_target_is_listed_even_if_nothing_was_measured() -> None:
    assert [each.words() for each in verdicts(results_with())] == ["not measured"] * len(TARGETS)


def test_every_target_names_a_case_that_exists() -> None:
    known = [(case.durability.value, case.name) for case in all_cases(FULL)]
    known += [("os", "start"), ("os", "memory"), ("rf3-os", "memory")]
    for target in TARGETS:
        assert any(target.applies_to(*case) for case in known), target
        assert not target.beside or (target.durability, target.beside) in known


def test_the_page_has_the_command_both_sides_the_ratio_and_the_verdict() -> None:
    page = report.markdown(SIDE_BY_SIDE)
    assert "`python -m benchmarks --quick`" in page
    assert "| single-16 | messages/s | 25,000 [20,000, 30,000] | 12,500 [10,000, 15,000] | 2.00x [2.00, 2.00] |" in page
    assert "at least 1.5x | met |" in page
    assert "flush.policy=os" in page


def test_the_picture_is_well_formed_and_has_a_bar_per_ratio() -> None:
    picture = ElementTree.fromstring(plot.svg(SIDE_BY_SIDE))
    assert picture.tag.endswith("svg")
    assert "2.00x (25,000 / 12,500)" in "".join(picture.itertext())


def test_positions_grow_with_the_ratio_and_stay_on_the_picture() -> None:
    places = [plot.position(ratio) for ratio in (0.0, 0.001, 0.5, 1.0, 2.0, 10.0, 1e6)]
    assert places == sorted(places)
    assert places[0] == places[1]
    assert places[-1] == places[-2]


def test_results_survive_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SIDE_BY_SIDE), type=Results) == SIDE_BY_SIDE


def test_rates_and_costs_come_from_what_was_counted() -> None:
    outcome = Outcome(2_000_000, 1000, elapsed_s=4.0, broker_cpu_s=3.0, generator_cpu_s=1.0, elsewhere_cpu_s=0.2)
    metrics = metrics_of(outcome)
    assert metrics["messages/s"] == 500_000
    assert metrics["MB/s"] == 500
    assert metrics["broker CPU-s/GB"] == metrics["broker CPU-s/million"] == 1.5
    assert metrics["generator CPU-s/million"] == 0.5
    assert (metrics["broker CPU %"], metrics["elsewhere CPU %"]) == (75, 5)
    beside = msgspec.structs.replace(outcome, coordinator_cpu_s=0.5)
    assert metrics_of(beside) == {**metrics, "ZooKeeper CPU-s/GB": 0.25}


def test_a_paced_load_reports_latency_and_no_rate() -> None:
    outcome = Outcome(1000, 100, 1.0, 0.1, 0.1, 0.0, latency_ms={"p50": 0.5})
    assert metrics_of(outcome)["p50 ms"] == 0.5
    assert "messages/s" not in metrics_of(outcome)


def test_a_workload_is_selected_by_whole_parts_of_its_name() -> None:
    cases = all_cases(QUICK)
    assert {case.name for case in selected(cases, ["latency-1000"])} == {"latency-1000"}
    assert len(selected(cases, ["os/produce-1k"])) == 6
    assert {case.durability for case in selected(cases, ["fsync"])} == {Durability.FSYNC}
    assert {case.durability.replicas for case in selected(cases, ["rf3"])} == {3}
    assert selected(cases, []) == cases
    assert selected(cases, ["prod"]) == []


def test_names_are_unique_within_a_durability_and_cover_the_matrix() -> None:
    names = [(case.durability, case.name) for case in all_cases(FULL)]
    assert len(names) == len(set(names))
    for size in ("100b", "1k"):
        for acks in ("1", "all"):
            for partitions in (1, 16):
                assert (Durability.OS, f"produce-{size}-acks-{acks}-p{partitions}") in names


def test_a_topic_that_is_read_as_found_is_read_warm_right_behind() -> None:
    cases = [case for case in all_cases(FULL) if case.name.startswith("catch-up")]
    for found, warm in zip(cases[::2], cases[1::2], strict=True):
        assert (found.topic, found.fill) == (warm.topic, warm.fill)
        assert warm.job == msgspec.structs.replace(found.job, times=8)
        assert found.name.replace("as-found-", "") == warm.name
    assert len(by_topic(cases)) == len(cases) / 2


def test_folded_stacks_count_the_top_and_everything_below_once() -> None:
    on_top, anywhere = self_and_total(["main;read;read 3", "main;write 2", ""])
    assert on_top == {"read": 3, "write": 2}
    assert anywhere == {"main": 5, "read": 3, "write": 2}
