"""Where a broker's time goes: Penstock under py-spy while one workload runs.

    python -m benchmarks.profile                                    single-message requests
    python -m benchmarks.profile os/produce-1k-acks-all-p1 --top 40
    python -m benchmarks.profile os/latency-1000 --native           C extensions and system calls too

Prints the functions that hold the processor themselves, and those below which it is held. Needs py-spy
(`pip install py-spy`) and the right to trace a child process.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.cases import FULL, QUICK, Case, all_cases, selected
from benchmarks.peers.broker import PeerUnavailable
from benchmarks.peers.penstock import Penstock
from benchmarks.results import metrics_of
from benchmarks.session import Session
from rich.console import Console
from rich.table import Table

_SAMPLES_PER_S = 500
_LONGEST_S = 600
# What is below nearly every sample is the way in (command line, event loop) and tells nothing.
_WRAPPING_SHARE = 0.98


def self_and_total(folded: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Samples per function from folded stacks (`outer;inner count`): on top of the stack, and anywhere in it.

    Recursion counts a function once per sample.
    """
    on_top: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    for line in folded:
        stack, _, count = line.strip().rpartition(" ")
        if stack:
            frames = stack.split(";")
            on_top[frames[-1]] += int(count)
            for frame in set(frames):
                anywhere[frame] += int(count)
    return on_top, anywhere


def show(folded: list[str], top: int, console: Console) -> None:
    on_top, anywhere = self_and_total(folded)
    samples = on_top.total()
    for title, counts in (("on the processor itself", on_top), ("itself or below", anywhere)):
        table = Table(title=f"{title}, of {samples} samples at {_SAMPLES_PER_S}/s", title_justify="left")
        table.add_column("share", justify="right")
        table.add_column("function", overflow="fold")
        shown = [(name, count) for name, count in counts.most_common() if count < _WRAPPING_SHARE * samples]
        for name, count in shown[:top]:
            table.add_row(f"{100 * count / samples:.1f} %", name)
        console.print(table)


def profiled(case: Case, spy_path: str, native: bool, folded_path: Path, directory: Path, console: Console) -> bool:
    """One warm measurement with py-spy attached; the folded stacks go to `folded_path`."""
    failures: list[str] = []
    command = [spy_path, "record", "--format", "raw", "--function", "--rate", str(_SAMPLES_PER_S)]
    command += ["--duration", str(_LONGEST_S)]
    command += ["--native"] if native else ["--nonblocking"]
    penstock = Penstock()
    penstock.prepare()
    with Session([penstock], directory, case.durability, failures.append) as session:
        for name in session.running():
            session.prepare(name, [case], QUICK)
            # A spy for each broker, and one file for all in the end.
            parts = {pid: folded_path.with_suffix(f".{pid}") for pid in session.broker_pids(name)}
            spies = [
                subprocess.Popen(
                    [*command, "--output", str(part), "--pid", str(pid)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for pid, part in parts.items()
            ]
            try:
                outcome = session.measure(name, case)
            finally:
                # py-spy writes its file when it is interrupted.
                for spy in spies:
                    spy.send_signal(signal.SIGINT)
                for spy in spies:
                    spy.wait()
            folded_path.write_text("".join(part.read_text() for part in parts.values()))
            for part in parts.values():
                part.unlink()
            if outcome is not None:
                for metric, value in metrics_of(outcome).items():
                    console.print(f"{metric}: {value:,.2f}", highlight=False)
    for failure in failures:
        console.print(failure, style="red", markup=False)
    return not failures


def main(arguments: list[str]) -> int:
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profile",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workload", nargs="?", default="os/single-16", help="as `python -m benchmarks --list` names it")
    parser.add_argument("--native", action="store_true", help="look into C extensions too; slows the broker down")
    parser.add_argument("--top", type=int, default=25, help="how many functions to print")
    parser.add_argument("--keep", type=Path, help="keep the folded stacks here, for a flame graph")
    parser.add_argument("--data-dir", type=Path, default=Path("build/bench"))
    options = parser.parse_args(arguments)
    console = Console()
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    cases = selected(all_cases(FULL), [options.workload])
    if spy is None or not cases:
        console.print("py-spy is missing: pip install py-spy" if cases else f"no workload {options.workload}")
        return 2
    options.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.data_dir, prefix="profile-") as directory:
        folded_path = (options.keep or Path(directory) / "folded").resolve()
        try:
            if not profiled(cases[0], spy, options.native, folded_path, Path(directory).resolve(), console):
                return 1
        except PeerUnavailable as problem:
            console.print(str(problem), style="red", markup=False)
            return 1
        show(folded_path.read_text().splitlines(), options.top, console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
