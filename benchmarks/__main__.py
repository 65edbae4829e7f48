"""Penstock beside Apache Kafka, on this machine, now.

    python -m benchmarks                                   everything, about 40 minutes
    python -m benchmarks --quick                           everything once and small, two to three minutes
    python -m benchmarks --only produce-1k --rounds 3      one family of workloads
    python -m benchmarks --only latency-1000 --peer penstock

Run it on a machine with nothing else to do. Results go to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import FULL, QUICK, START, all_cases, selected
from benchmarks.pages import write
from benchmarks.peers.broker import Peer, PeerUnavailable
from benchmarks.peers.kafka import Kafka
from benchmarks.peers.penstock import Penstock
from benchmarks.results import Results
from benchmarks.run import Plan, Run
from benchmarks.screen import FILE_WIDTH, Screen
from rich.console import Console

from benchmarks import report


def parse(arguments: list[str]) -> argparse.Namespace:
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and one round: direction, not decimals")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads whose name starts so")
    parser.add_argument("--peer", choices=("both", "penstock", "kafka"), default="both")
    parser.add_argument("--rounds", type=int, help="rounds per workload (7; quick: 1)")
    parser.add_argument("--data-dir", type=Path, default=Path("build/bench"), help="where the brokers keep their logs")
    parser.add_argument("--no-fill", action="store_true", help="leave free memory as it is: sooner, less comparable")
    parser.add_argument("--name", help="results/NAME.json, .md and .svg (full, quick or partial)")
    parser.add_argument("--list", action="store_true", help="name the workloads and stop")
    return parser.parse_args(arguments)


def available_peers(wanted: str, console: Console) -> list[Peer]:
    peers: list[Peer] = []
    candidates: tuple[Peer, ...] = (Penstock(), Kafka())
    for peer in candidates:
        if wanted in ("both", peer.name):
            try:
                with console.status(f"preparing {peer.name}"):
                    peer.prepare()
            except PeerUnavailable as problem:
                console.print(f"skipping {peer.name}: {problem}", style="yellow", markup=False)
            else:
                peers.append(peer)
    return peers


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    scale = QUICK if options.quick else FULL
    cases = selected(all_cases(scale), options.only)
    with_start = not options.only or any(START.startswith(word) for word in options.only)
    if options.list:
        console.print("\n".join([START, *(f"{case.durability.value}/{case.name}" for case in cases)]))
        return 0
    if unknown := [word for word in options.only if not START.startswith(word) and not selected(cases, [word])]:
        console.print(f"no workload is called {', '.join(unknown)}; --list names them", style="red")
        return 2
    peers = available_peers(options.peer, console)
    if not peers:
        return 1
    options.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.data_dir, prefix="run-") as directory:
        plan = Plan(
            command=shlex.join(["python", "-m", "benchmarks", *arguments]),
            peers=peers,
            cases=cases,
            scale=scale,
            rounds=options.rounds or scale.rounds,
            with_start=with_start,
            fill_memory=not options.no_fill,
            directory=Path(directory).resolve(),
        )
        finished, results = execute(plan, console)
    report.show(results, console)
    # What was broken off must not take the place of what was not.
    usual = "partial" if options.only else "quick" if options.quick else "full"
    name = (options.name or usual) if finished else "partial"
    write(results, name, console)
    return 0 if finished and not results.failures else 1


def execute(plan: Plan, console: Console) -> tuple[bool, Results]:
    """An interrupted run reports what it has."""
    screen = Screen(console, plan.measurements())
    run = Run(plan, screen)
    try:
        with screen.progress:
            run.execute()
    except PeerUnavailable as problem:
        run.results.failures.append(str(problem))
    except KeyboardInterrupt:
        run.results.failures.append("interrupted before the end")
    else:
        return True, run.results
    return False, run.results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
