"""Spark's benchmark: what it measures, what it makes of it, and what it calls met."""

from __future__ import annotations

import msgspec
import pytest
from benchmarks.results import Measurement, Results
from benchmarks.spark.cases import COMPARISON, FULL, QUICK, all_cases, selected
from benchmarks.spark.meter import Usage, costs, rates
from benchmarks.spark.profile import folded
from benchmarks.targets import verdicts

from benchmarks import report

_USED = Usage(elapsed_s=2.0, jvm_cpu_s=1.5, python_cpu_s=1.0, broker_cpu_s=0.5, elsewhere_cpu_s=0.2)


def test_names_are_unique_and_every_target_names_a_case_of_both_sides() -> None:
    sides = {case.name: case.sides for case in all_cases(FULL)}
    assert len(sides) == len(all_cases(FULL))
    for target in COMPARISON.targets:
        assert len(sides[target.cases]) == 2


def test_topics_of_one_name_are_filled_alike() -> None:
    for scale in (FULL, QUICK):
        fillings = {case.filling for case in all_cases(scale) if case.filling is not None}
        assert len({filling.topic for filling in fillings}) == len(fillings)


def test_a_case_is_selected_by_whole_parts_of_its_name() -> None:
    cases = all_cases(QUICK)
    assert [case.name for case in selected(cases, ["read-1k"])] == ["read-1k", "read-1k-narrow"]
    assert selected(cases, ["rea"]) == []
    assert selected(cases, []) == cases


def test_a_core_is_what_spark_and_its_python_keep_busy() -> None:
    found = rates(5_000_000, 100, _USED)
    assert (found["rows/s"], found["MB/s"]) == (2_500_000, 250)
    assert found["rows/s per core"] == 2_000_000
    assert (found["JVM CPU-s/million"], found["Python CPU-s/million"]) == (0.3, 0.2)
    assert found["elsewhere CPU %"] == pytest.approx(10)


def test_small_batches_are_counted_by_what_each_costs() -> None:
    found = costs(10, _USED)
    assert (found["JVM CPU-ms/micro-batch"], found["Python CPU-ms/micro-batch"]) == (150, 100)
    assert "rows/s" not in found


def test_the_page_names_the_other_side_and_judges_by_its_own_targets() -> None:
    results = Results(
        command="python -m benchmarks.spark",
        date="2026-01-01 00:00 UTC",
        machine={"cores": "2"},
        settings={"os": {"penstock": "format penstock", "kafka": "format kafka"}},
        measurements=[
            Measurement("os", "read-100b", "penstock", 0, {"rows/s": 1_199.0}),
            Measurement("os", "read-100b", "kafka", 0, {"rows/s": 1_000.0}),
        ],
    )
    words = {verdict.case: verdict.words() for verdict in verdicts(results, COMPARISON.targets)}
    assert (words["read-100b"], words["write-1k"]) == ("fell short", "not measured")
    page = report.markdown(results, COMPARISON)
    assert "| workload | metric | Penstock | Spark's connector | ratio |" in page
    assert "single-16" not in page


def test_stacks_of_the_flight_recorder_are_folded_from_the_outside_in() -> None:
    frames = [{"method": {"type": {"name": f"org/spark/{name}"}, "name": "run"}} for name in ("Inner", "Outer")]
    events = [{"values": {"stackTrace": {"frames": frames}}}, {"values": {"stackTrace": None}}]
    recording = msgspec.json.encode({"recording": {"events": events}})
    assert list(folded(recording)) == ["org.spark.Outer.run;org.spark.Inner.run 1"]
