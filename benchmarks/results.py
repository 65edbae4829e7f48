"""What a run found, as it goes to JSON and comes back."""

from __future__ import annotations

import msgspec
from benchmarks.ceilings import Ceilings
from benchmarks.load.job import Outcome

_GB = 1e9
_MILLION = 1e6


class Measurement(msgspec.Struct, frozen=True):
    durability: str
    case: str
    peer: str
    round: int
    metrics: dict[str, float]


class Results(msgspec.Struct):
    command: str
    date: str
    machine: dict[str, str]
    # durability -> peer -> the settings that ask for it
    settings: dict[str, dict[str, str]]
    # before and after each session: a machine that changed in between shows
    ceilings: dict[str, Ceilings] = {}
    measurements: list[Measurement] = []
    failures: list[str] = []
    remarks: list[str] = []

    def values(self, durability: str, case: str, peer: str, metric: str) -> list[float]:
        """The rounds of one metric, in order."""
        rows = [row for row in self.measurements if (row.durability, row.case, row.peer) == (durability, case, peer)]
        return [row.metrics[metric] for row in sorted(rows, key=_round_of) if metric in row.metrics]

    def cases(self) -> list[tuple[str, str]]:
        """(durability, case), each once, in the order measured."""
        return list(dict.fromkeys((row.durability, row.case) for row in self.measurements))


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Latencies where the load was paced; rates where it went as fast as it could. CPU always."""
    size_gb = outcome.messages * outcome.message_bytes / _GB
    millions = outcome.messages / _MILLION
    metrics = {f"{name} ms": value for name, value in outcome.latency_ms.items()}
    if outcome.transactions:
        metrics["transactions/s"] = outcome.transactions / outcome.elapsed_s
        metrics["broker CPU-ms/transaction"] = 1000 * outcome.broker_cpu_s / outcome.transactions
        metrics["generator CPU-ms/transaction"] = 1000 * outcome.generator_cpu_s / outcome.transactions
    elif not metrics:
        metrics["messages/s"] = outcome.messages / outcome.elapsed_s
        metrics["MB/s"] = size_gb * 1000 / outcome.elapsed_s
    metrics["broker CPU-s/GB"] = outcome.broker_cpu_s / size_gb
    if outcome.coordinator_cpu_s:
        metrics["ZooKeeper CPU-s/GB"] = outcome.coordinator_cpu_s / size_gb
    metrics["broker CPU-s/million"] = outcome.broker_cpu_s / millions
    metrics["generator CPU-s/million"] = outcome.generator_cpu_s / millions
    metrics["broker CPU %"] = 100 * outcome.broker_cpu_s / outcome.elapsed_s
    metrics["generator CPU %"] = 100 * outcome.generator_cpu_s / outcome.elapsed_s
    metrics["elsewhere CPU %"] = 100 * outcome.elsewhere_cpu_s / outcome.elapsed_s
    return metrics


def _round_of(measurement: Measurement) -> int:
    return measurement.round
