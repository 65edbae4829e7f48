"""One run: ceilings, then a session per durability, each workload on each peer, in an order that changes."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.cases import START, Case, Scale, by_topic
from benchmarks.peers.broker import Durability, Peer, PeerUnavailable
from benchmarks.results import Measurement, Results, metrics_of
from benchmarks.session import Session
from benchmarks.start import start_to_first_ack_s

from benchmarks import ceilings, machine

_Side = TypeVar("_Side")
MEMORY = "memory"
# A kernel that writes back takes less than this.
_DISTURBED_SHARE = 0.3
# Indexes, internal topics and what else is on the disk.
_DISK_SPARE_BYTES = 5_000_000_000


class Watcher(Protocol):
    """Sees a run as it goes."""

    def step(self, what: str) -> None: ...

    def measured(self, measurement: Measurement) -> None: ...

    def failed(self, why: str) -> None: ...


@dataclass(frozen=True)
class Plan:
    command: str
    peers: Sequence[Peer]
    cases: Sequence[Case]
    scale: Scale
    rounds: int
    with_start: bool
    fill_memory: bool
    directory: Path

    def measurements(self) -> int:
        """How many there will be, for the progress bar."""
        per_round = len(self.cases) + self.with_start
        return per_round * self.rounds * len(self.peers)

    def session_bytes(self, durability: Durability) -> int:
        cases = [case for case in self.cases if case.durability is durability]
        filled = sum(case.fill.written_bytes() for case in by_topic(cases).values() if case.fill is not None)
        measured = sum(case.job.written_bytes() for case in cases) * self.rounds
        return (self.scale.warm_bytes + filled + measured) * durability.replicas * len(self.peers)

    def durabilities(self) -> list[Durability]:
        return [each for each in Durability if any(case.durability is each for case in self.cases)]


class Run:
    """`results` grows as the run goes, so that an interrupted run still has something to report."""

    def __init__(self, plan: Plan, watcher: Watcher) -> None:
        self._plan = plan
        self._watcher = watcher
        self._disturbed = 0
        self.results = Results(
            command=plan.command,
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            machine=machine.describe() | {peer.name: peer.version() for peer in plan.peers},
            settings={each.value: self._settings(each) for each in Durability},
        )

    def execute(self) -> None:
        plan = self._plan
        self._check_room(max((plan.session_bytes(each) for each in plan.durabilities()), default=0))
        if plan.with_start:
            self._measure_starts()
        for durability in plan.durabilities():
            directory = plan.directory / durability.value
            directory.mkdir()
            try:
                self._hold_session(durability, directory)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        if self._disturbed:
            self.results.remarks.append(
                f"{self._disturbed} of {len(self.results.measurements)} measurements were disturbed: more than "
                f"{_DISTURBED_SHARE:.0%} of a processor went to something else"
            )

    def _settings(self, durability: Durability) -> dict[str, str]:
        return {peer.name: peer.settings_of(durability) for peer in self._plan.peers}

    def _check_room(self, wanted_bytes: int) -> None:
        free_bytes = shutil.disk_usage(self._plan.directory).free
        if free_bytes < wanted_bytes + _DISK_SPARE_BYTES:
            needed_gb = (wanted_bytes + _DISK_SPARE_BYTES) / 1e9
            raise PeerUnavailable(
                f"the run needs {needed_gb:.0f} GB of disk and {free_bytes / 1e9:.0f} GB are free: "
                "free some, name another place with --data-dir, or measure less with --quick, --only or --rounds"
            )

    def _measure_starts(self) -> None:
        for number in range(self._plan.rounds):
            for peer in in_turn(self._plan.peers, number):
                self._watcher.step(f"round {number + 1}: {START} on {peer.name}")
                home = self._plan.directory / f"{START}-{number}-{peer.name}"
                home.mkdir()
                try:
                    took_s = start_to_first_ack_s(peer, home, Durability.OS)
                except PeerUnavailable as problem:
                    self._fail(f"{START} on {peer.name}: {problem}")
                else:
                    self._add(Durability.OS, START, peer.name, number, {"start to first ack s": took_s})
        for home in self._plan.directory.glob(f"{START}-*"):
            shutil.rmtree(home)

    def _hold_session(self, durability: Durability, directory: Path) -> None:
        """Nothing is deleted until it is over."""
        plan = self._plan
        cases = [case for case in plan.cases if case.durability is durability]
        if plan.fill_memory:
            self._watcher.step("filling memory with recyclable pages")
            machine.fill_memory(plan.directory / f"ballast-{durability.value}")
        self._measure_ceilings(durability, "before", directory)
        with Session(plan.peers, directory, durability, self._fail) as session:
            for name in session.running():
                self._watcher.step(f"{durability.value}: warming {name}")
                session.prepare(name, cases, plan.scale)
            for number in range(plan.rounds):
                for place, case in enumerate(cases):
                    self._measure(session, case, number, place)
            for name in session.running():
                self._add(durability, MEMORY, name, 0, session.peak_rss_mb(name))
        self._measure_ceilings(durability, "after", directory)

    def _measure_ceilings(self, durability: Durability, when: str, directory: Path) -> None:
        self._watcher.step("measuring ceilings")
        self.results.ceilings[f"{when} {durability.value}"] = ceilings.measure(directory)

    def _measure(self, session: Session, case: Case, number: int, place: int) -> None:
        for name in in_turn(session.running(), number + place):
            self._watcher.step(f"round {number + 1}: {case.durability.value}/{case.name} on {name}")
            outcome = session.measure(name, case)
            if outcome is not None:
                self._add(case.durability, case.name, name, number, metrics_of(outcome))
                if outcome.elsewhere_cpu_s > _DISTURBED_SHARE * outcome.elapsed_s:
                    self._disturbed += 1

    def _add(self, durability: Durability, case: str, peer: str, number: int, metrics: dict[str, float]) -> None:
        measurement = Measurement(durability.value, case, peer, number, metrics)
        self.results.measurements.append(measurement)
        self._watcher.measured(measurement)

    def _fail(self, why: str) -> None:
        self.results.failures.append(why)
        self._watcher.failed(why)


def in_turn(sides: Sequence[_Side], number: int) -> list[_Side]:
    """Whoever went first goes second next time."""
    return list(sides) if number % 2 == 0 else list(reversed(sides))
