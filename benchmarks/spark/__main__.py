"""Penstock's data source for Spark beside Spark's own Kafka connector, on the same broker.

    python -m benchmarks.spark                             everything, about 20 minutes
    python -m benchmarks.spark --quick                     everything once and small
    python -m benchmarks.spark --only read-100b --rounds 3
    python -m benchmarks.spark.profile read-100b           where the time goes

Run it on a machine with nothing else to do. Results go to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.job import LoadFailed
from benchmarks.pages import write
from benchmarks.peers.broker import PeerUnavailable
from benchmarks.peers.penstock import Penstock
from benchmarks.screen import FILE_WIDTH, Screen
from benchmarks.spark.cases import COMPARISON, FULL, QUICK, all_cases, selected
from benchmarks.spark.connector import Connector
from benchmarks.spark.run import Plan, Run
from benchmarks.targets import OURS, THEIRS
from rich.console import Console

from benchmarks import report


def parse(arguments: list[str]) -> argparse.Namespace:
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and one round: direction, not decimals")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="works whose name starts so")
    parser.add_argument("--side", choices=("both", OURS, THEIRS), default="both")
    parser.add_argument("--rounds", type=int, help="rounds per work (5; quick: 1)")
    parser.add_argument("--data-dir", type=Path, default=Path("build/bench"), help="where the broker keeps its logs")
    parser.add_argument("--no-fill", action="store_true", help="leave free memory as it is: sooner, less comparable")
    parser.add_argument("--name", help="results/NAME.json, .md and .svg (spark, spark-quick or spark-partial)")
    parser.add_argument("--list", action="store_true", help="name the works and stop")
    return parser.parse_args(arguments)


def fetched(side: str, console: Console) -> tuple[tuple[str, ...], Sequence[Path]]:
    """The sides that can run here, and the jars of the other one."""
    if side == OURS:
        return (OURS,), ()
    try:
        with console.status("preparing Spark's Kafka connector"):
            jars = Connector().prepare()
    except PeerUnavailable as problem:
        console.print(f"skipping Spark's Kafka connector: {problem}", style="yellow", markup=False)
        return ((OURS,) if side == "both" else ()), ()
    return ((OURS, THEIRS) if side == "both" else (THEIRS,)), jars


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    scale = QUICK if options.quick else FULL
    cases = selected(all_cases(scale), options.only)
    if options.list or not cases:
        console.print("\n".join(case.name for case in cases) or "no work is called so; --list names them")
        return 0 if cases else 2
    sides, jars = fetched(options.side, console)
    if not sides:
        return 1
    broker = Penstock()
    try:
        with console.status("preparing a broker"):
            broker.prepare()
    except PeerUnavailable as problem:
        console.print(str(problem), style="red", markup=False)
        return 1
    options.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.data_dir, prefix="spark-") as directory:
        plan = Plan(
            command=shlex.join(["python", "-m", "benchmarks.spark", *arguments]),
            cases=cases,
            scale=scale,
            rounds=options.rounds or scale.rounds,
            sides=sides,
            broker=broker,
            jars=jars,
            fill_memory=not options.no_fill,
            directory=Path(directory).resolve(),
        )
        screen = Screen(console, plan.measurements())
        run = Run(plan, screen)
        try:
            with screen.progress:
                run.execute()
        except (PeerUnavailable, LoadFailed) as problem:
            run.results.failures.append(str(problem))
        except KeyboardInterrupt:
            run.results.failures.append("interrupted before the end")
    report.show(run.results, console, COMPARISON)
    name = options.name or ("spark-partial" if options.only else "spark-quick" if options.quick else "spark")
    write(run.results, name, console, COMPARISON)
    return 1 if run.results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
