"""Workers that consume, transform and produce in transactions, under faults, and a check of what readers got.

    python -m tests.cluster.faults.exactly_once --directory DIR --seed 7 --seconds 120 --zookeepers 1

Prints a summary as JSON on its last line. Everything stays in DIR, as with `scenario`.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.cluster.faults.cluster import HEAL_S, wait_for
from tests.cluster.faults.injector import Injector
from tests.cluster.faults.processes import Process
from tests.cluster.faults.scenario import Outcome, Scenario, Wish, arguments
from tests.cluster.faults.schedule import Fault, Possible
from tests.cluster.faults.stability import Stability
from tests.cluster.history.events import AnyEvent, CommitBegun, Sent, TransactionEnded

INPUTS, OUTPUTS, PARTITIONS = "inputs", "outputs", 8
INTERNAL = ("__transaction_state", "__consumer_offsets")
PRODUCERS = 2
# By transactional id. Those of librdkafka know version 1 of transactions, the last one does version 2.
WORKERS = {
    "worker-0": "transforming",
    "worker-1": "transforming",
    "worker-2": "transforming",
    "worker-3": "bumping",
}
GROUP, AUDIT, LATE_AUDIT = "workers", "audit", "late-audit"
# To notice the timeout, to find a new leader and to write the markers, on a machine that is busy with all this.
GRACE_S = 5.0
# For what was left undone while workers were dead: one of them may have all of it in its partition.
CATCH_UP_S = 600


@dataclass(frozen=True)
class TransactionWish(Wish):
    # Faults come no longer than that; 0: until all have come.
    seconds: float
    transaction_ms: int
    only_workers: bool


@dataclass
class TransactionOutcome(Outcome):
    committed: int = 0
    aborted: int = 0
    # Their producer died, or was told that it can do no more.
    not_known: int = 0
    lives_of_workers: int = 0
    values_in_transactions: int = 0
    # After a fault has been dealt with: until there was another output
    slowest_output_seconds: float = 0
    # After each fault: until readers of committed records got all that was there.
    slowest_stable_seconds: float = 0
    median_stable_seconds: float = 0
    stable_seconds: list[float] = field(default_factory=list)


class ExactlyOnce(Scenario):
    _recorded = ((INPUTS, PARTITIONS), (OUTPUTS, PARTITIONS))
    _topics = (INPUTS, OUTPUTS, *INTERNAL)
    # Workers that are gone are missed soon.
    _settings = MappingProxyType({"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"})

    def __init__(self, wish: TransactionWish, directory: Path) -> None:
        self._limits = wish
        super().__init__(wish, directory)
        self._workers: dict[str, Process] = {}
        self._injector = Injector(self._cluster, OUTPUTS, GROUP, self._say, self._workers)
        self._stability: Stability | None = None
        self._deadline = 0.0

    def _new_outcome(self) -> TransactionOutcome:
        return TransactionOutcome(**asdict(super()._new_outcome()))

    @property
    def _seen(self) -> TransactionOutcome:
        assert isinstance(self._outcome, TransactionOutcome)
        return self._outcome

    def _prepare(self) -> None:
        self._cluster.start()
        replicas = min(3, self._wish.brokers)
        config = {"min.insync.replicas": "2"} if replicas == 3 else {}
        for topic in (INPUTS, OUTPUTS):
            self._cluster.create_topic(topic, PARTITIONS, replicas, config)
        self._say(f"{self._wish.brokers} brokers are ready: {self._cluster.bootstrap}")
        of_all = {"partitions": PARTITIONS, "topic": INPUTS, "group": GROUP}
        for number in range(PRODUCERS):
            self._producers.append(self._client("producing", f"producer-{number}", **of_all))
        for name, module in WORKERS.items():
            times = {"transaction_ms": self._limits.transaction_ms}
            self._workers[name] = self._client(module, name, output=OUTPUTS, **of_all, **times)
        self._others.append(self._audit(AUDIT))
        self._others.append(self._client("watching", "watcher", **of_all))
        self._wait_for_output()
        self._stability = Stability(self._cluster, OUTPUTS, PARTITIONS)
        self._deadline = time.monotonic() + self._limits.seconds

    def _audit(self, group: str) -> Process:
        return self._client("auditing", group, topic=OUTPUTS, partitions=PARTITIONS, group=group)

    def _wait_for_output(self) -> None:
        """Of those who have inputs, more than there is."""
        transforming = [f'"value":"{name}.'.encode() for name, module in WORKERS.items() if module == "transforming"]
        path = self._histories / f"{AUDIT}.history.jsonl"
        position = path.stat().st_size if path.exists() else 0

        def has_come() -> bool:
            if not path.exists():
                return False
            with path.open("rb") as lines:
                lines.seek(position)
                came = lines.read()
            return any(value in came for value in transforming)

        wait_for(has_come, "another output is committed", HEAL_S)

    def _possible(self) -> Possible:
        wish = self._wish
        only = self._limits.only_workers
        cuts = self._cluster.network.can_cut
        return Possible(cuts, wish.brokers, wish.zookeepers, wish.spare, workers=True, only_workers=only)

    def _is_over(self) -> bool:
        return bool(self._limits.seconds) and time.monotonic() > self._deadline

    def _before(self, fault: Fault) -> None:
        """Workers work again, so it meets some of their transactions."""
        began = time.monotonic()
        self._wait_for_output()
        self._seen.slowest_output_seconds = max(self._seen.slowest_output_seconds, round(time.monotonic() - began, 1))

    def _after(self, fault: Fault) -> None:
        """The last stable offset moves on, whoever is dead. Then a worker that was killed comes back."""
        assert self._stability is not None
        for broker in self._cluster.brokers.values():
            # How long a process takes to start is another matter.
            broker.wait_until_it_answers(self._cluster.clients)
        look = self._stability.look(self._limits.transaction_ms / 1000 + GRACE_S)
        self._seen.stable_seconds.append(round(look.took_s, 2))
        self._say(f"stable after {look.took_s:.2f} s")
        if look.stuck:
            text = f"after {fault} last stable offsets stood still for {look.took_s:.1f} s: {look.stuck}"
            self._seen.findings.append(text)
            self._say(text)
        for worker in self._workers.values():
            if not worker.is_running:
                worker.launch()

    def _clients_live(self) -> None:
        super()._clients_live()
        for name, worker in self._workers.items():
            if not worker.is_running:
                self._seen.findings.append(f"{name} ended by itself: {worker.output_text()[-2000:]}")
                worker.launch()

    def _drain(self) -> None:
        self._drained(GROUP, INPUTS, PARTITIONS, CATCH_UP_S)
        for worker in self._workers.values():
            worker.terminate()
        for name, worker in self._workers.items():
            assert worker.wait() == 0, f"{name}: {worker.output_text()[-2000:]}"
        self._drained(AUDIT, OUTPUTS, PARTITIONS)
        # Who comes late reads the same.
        self._others.append(self._audit(LATE_AUDIT))
        self._drained(LATE_AUDIT, OUTPUTS, PARTITIONS)

    def _end_clients(self) -> None:
        super()._end_clients()
        for worker in self._workers.values():
            worker.stop()

    def _count(self, events: list[AnyEvent]) -> None:
        super()._count(events)
        seen = self._seen
        ends = Counter(event.committed for event in events if isinstance(event, TransactionEnded))
        known = {event.transaction for event in events if isinstance(event, TransactionEnded)}
        values = [event for event in events if isinstance(event, Sent) and event.transaction]
        begun = {event.transaction for event in events if isinstance(event, CommitBegun)}
        seen.committed, seen.aborted = ends[True], ends[False]
        seen.not_known = len((begun | {event.transaction for event in values}) - known)
        seen.lives_of_workers = len({event.producer for event in values})
        seen.values_in_transactions = len(values)
        times = sorted(seen.stable_seconds)
        seen.slowest_stable_seconds = max(times, default=0)
        seen.median_stable_seconds = times[len(times) // 2] if times else 0
        if not seen.committed or not seen.aborted:
            seen.findings.append("nothing was committed, or nothing aborted")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="faults come no longer than that")
    parser.add_argument("--transaction-ms", type=int, default=10_000, help="the timeout of workers' transactions")
    parser.add_argument("--only-workers", action="store_true", help="faults are for them")
    given = vars(parser.parse_args())
    directory: Path = given.pop("directory").absolute()
    directory.mkdir(parents=True, exist_ok=True)
    outcome = ExactlyOnce(TransactionWish(**given), directory).run()
    print(json.dumps(asdict(outcome)))
    return bool(outcome.findings)


if __name__ == "__main__":
    sys.exit(main())
