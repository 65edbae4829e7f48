"""What Penstock has promised to reach beside Apache Kafka, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from benchmarks.results import Results
from benchmarks.summary import Ratio

OURS = "penstock"
THEIRS = "kafka"


@dataclass(frozen=True)
class Target:
    """A bound on the ratio of one metric: to Kafka's, or to our own under another case where `beside` names one."""

    durability: str
    cases: str
    metric: str
    bound: float
    at_least: bool
    beside: str = ""

    def applies_to(self, durability: str, case: str) -> bool:
        return durability == self.durability and fnmatchcase(case, self.cases)

    def words(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}x"

    def met_by(self, ratio: Ratio) -> bool:
        return ratio.value >= self.bound if self.at_least else ratio.value <= self.bound


@dataclass(frozen=True)
class Verdict:
    """A target applied to one case. Without a ratio it was not measured."""

    target: Target
    case: str
    ratio: Ratio | None

    @property
    def other_side(self) -> str:
        return self.target.beside or THEIRS

    def words(self) -> str:
        if self.ratio is None:
            return "not measured"
        return "met" if self.target.met_by(self.ratio) else "fell short"


TARGETS = (
    Target("os", "produce-1k-*", "MB/s", 1.2, at_least=True),
    Target("os", "catch-up-1k-*", "MB/s", 1.0, at_least=True),
    Target("os", "transactions", "transactions/s", 0.8, at_least=True),
    Target("os", "single-16", "messages/s", 1.5, at_least=True),
    Target("os", "latency-1000", "p50 ms", 1.0, at_least=False),
    Target("os", "latency-1000", "p99 ms", 1.25, at_least=False),
    Target("os", "latency-5000", "p99 ms", 0.5, at_least=False),
    Target("os", "produce-1k-*", "broker CPU-s/GB", 0.8, at_least=False),
    Target("os", "catch-up-1k-*", "broker CPU-s/GB", 0.8, at_least=False),
    Target("os", "memory", "peak RSS MB", 0.1, at_least=False),
    Target("os", "start", "start to first ack s", 0.3, at_least=False),
    Target("os", "connections-100-idle-1000", "messages/s", 0.9, at_least=True, beside="connections-100"),
    Target("os", "partitions-1000", "messages/s", 0.9, at_least=True, beside="produce-1k-acks-1-p16"),
    Target("fsync", "produce-1k-acks-all-*", "MB/s", 3.0, at_least=True),
    Target("fsync", "single-16-acks-all", "messages/s", 3.0, at_least=True),
    Target("fsync", "transactions", "transactions/s", 0.8, at_least=True),
    Target("rf3-os", "produce-1k-acks-all-*", "MB/s", 0.8, at_least=True),
    Target("rf3-os", "single-16-acks-all", "messages/s", 0.8, at_least=True),
    Target("rf3-os", "produce-1k-acks-all-*", "broker CPU-s/GB", 1.0, at_least=False),
    Target("rf3-os", "single-16-acks-all", "broker CPU-s/GB", 1.0, at_least=False),
    Target("rf3-os", "memory", "peak RSS MB", 0.1, at_least=False),
)


@dataclass(frozen=True)
class Comparison:
    """Whom Penstock is put beside, and what is expected of it there."""

    title: str
    # How the other side is called on a page; in results it is `kafka` always.
    theirs: str
    targets: tuple[Target, ...]


BROKERS = Comparison("Penstock beside Apache Kafka", "Apache Kafka", TARGETS)


def verdicts(results: Results, targets: Sequence[Target] = TARGETS) -> Iterator[Verdict]:
    """Every target, for every case it names; a target of which no case was run appears once, as not measured."""
    for target in targets:
        matching = [case for durability, case in results.cases() if target.applies_to(durability, case)]
        for case in matching or [target.cases]:
            yield Verdict(target, case, _ratio(results, target, case))


def _ratio(results: Results, target: Target, case: str) -> Ratio | None:
    ours = results.values(target.durability, case, OURS, target.metric)
    if target.beside:
        return Ratio.of(ours, results.values(target.durability, target.beside, OURS, target.metric))
    return Ratio.of(ours, results.values(target.durability, case, THEIRS, target.metric))
