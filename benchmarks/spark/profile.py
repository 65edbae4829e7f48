"""Where the time of one work goes: in Spark's JVM, in its Python workers and in the broker.

    python -m benchmarks.spark.profile read-100b
    python -m benchmarks.spark.profile read-100b --side kafka --top 40

The workers and the broker are watched by py-spy, the JVM by its flight recorder (`jcmd`, `jfr`); CPU time by thread
comes from /proc. Needs py-spy and a JDK.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from benchmarks.load.job import LoadFailed
from benchmarks.peers.broker import PeerUnavailable
from benchmarks.peers.penstock import Penstock
from benchmarks.profile import self_and_total
from benchmarks.spark.cases import FULL, QUICK, Case, all_cases, selected
from benchmarks.spark.connector import Connector
from benchmarks.spark.session import SparkSide
from benchmarks.targets import OURS, THEIRS
from benchmarks.usage import ProcessStat, family
from rich.console import Console
from rich.table import Table

_SAMPLES_PER_S = 200
_LONGEST_S = 600
_DEEPEST = 40


class Frame(msgspec.Struct):
    method: dict[str, object]

    def words(self) -> str:
        kind = self.method.get("type")
        name = kind.get("name") if isinstance(kind, dict) else "?"
        return f"{str(name).replace('/', '.')}.{self.method.get('name')}"


def folded(recording: bytes) -> Iterator[str]:
    """Stacks of the flight recorder, of all threads, as py-spy writes its own: `outer;inner count`."""
    for event in msgspec.json.decode(recording)["recording"]["events"]:
        trace = event["values"].get("stackTrace")
        frames = msgspec.convert(trace["frames"], list[Frame]) if trace else []
        if frames:
            yield ";".join(frame.words() for frame in reversed(frames)) + " 1"


def thread_cpu_s(pid: int) -> dict[str, float]:
    """By name, in which numbers are left out: all threads of a pool are one."""
    found: dict[str, float] = {}
    for entry in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        pool = re.sub(r"[\d#.\-]+$", "", name).strip()
        found[pool] = found.get(pool, 0.0) + ProcessStat.parse(text).cpu_s
    return found


class Watch:
    """py-spy on every Python process and the flight recorder in the JVM, between entry and exit."""

    def __init__(self, spark: SparkSide, spy_path: str, directory: Path) -> None:
        self._jvm_pid = spark.jvm_pid
        workers = [pid for pid in family(spark.jvm_pid) if pid != spark.jvm_pid]
        self._spied = {"workers": workers, "broker": spark.broker_pids}
        self._spy_path = spy_path
        self._directory = directory
        self._spies: list[subprocess.Popen[bytes]] = []
        self._recording = directory / "recording.jfr"
        self.threads_cpu_s: dict[str, float] = {}

    def __enter__(self) -> Watch:
        command = [self._spy_path, "record", "--format", "raw", "--function", "--nonblocking"]
        command += ["--rate", str(_SAMPLES_PER_S), "--duration", str(_LONGEST_S)]
        for name, pids in self._spied.items():
            for pid in pids:
                to = ["--output", str(self._directory / f"{name}.{pid}"), "--pid", str(pid)]
                spy = subprocess.Popen([*command, *to], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self._spies.append(spy)
        self._order("JFR.start", "name=profile", "settings=profile")
        self.threads_cpu_s = thread_cpu_s(self._jvm_pid)
        return self

    def __exit__(self, *_: object) -> None:
        before, self.threads_cpu_s = self.threads_cpu_s, thread_cpu_s(self._jvm_pid)
        self.threads_cpu_s = {name: used_s - before.get(name, 0.0) for name, used_s in self.threads_cpu_s.items()}
        self._order("JFR.stop", "name=profile", f"filename={self._recording}")
        # py-spy writes its file when it is interrupted.
        for spy in self._spies:
            spy.send_signal(signal.SIGINT)
        for spy in self._spies:
            spy.wait()

    def stacks(self) -> Iterator[tuple[str, list[str]]]:
        for name in self._spied:
            parts = self._directory.glob(f"{name}.*")
            yield name, [line for part in parts for line in part.read_text().splitlines()]
        command = ["jfr", "print", "--json", "--stack-depth", str(_DEEPEST)]
        for event, name in (
            ("jdk.ExecutionSample", "JVM, in Java"),
            ("jdk.NativeMethodSample", "JVM, in system calls"),
        ):
            printed = subprocess.run(
                [*command, "--events", event, str(self._recording)], stdout=subprocess.PIPE, check=True
            )
            yield name, list(folded(printed.stdout))

    def _order(self, *words: str) -> None:
        subprocess.run(["jcmd", str(self._jvm_pid), *words], stdout=subprocess.DEVNULL, check=True)


def show(title: str, counts: Iterable[tuple[str, float]], unit: str, console: Console) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column(unit, justify="right")
    table.add_column("where", overflow="fold")
    for name, count in counts:
        table.add_row(f"{count:.2f}", name)
    console.print(table)


def profile(case: Case, side: str, spark: SparkSide, watch: Watch, top: int, console: Console) -> None:
    with watch:
        metrics = spark.measure(case, side)
    for name, value in metrics.items():
        console.print(f"{name}: {value:,.2f}", highlight=False)
    threads = sorted(watch.threads_cpu_s.items(), key=lambda item: item[1], reverse=True)
    show("threads of the JVM", threads[:top], "CPU-s", console)
    for name, stacks in watch.stacks():
        on_top, anywhere = self_and_total(stacks)
        for words, counts in (("on top of the stack", on_top), ("anywhere in it", anywhere)):
            samples = max(1, on_top.total())
            shares = [(frame, 100 * count / samples) for frame, count in counts.most_common(top)]
            show(f"{name}: {words}, of {samples} samples", shares, "%", console)


def main(arguments: list[str]) -> int:
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark.profile",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("work", help="as `python -m benchmarks.spark --list` names it")
    parser.add_argument("--side", choices=(OURS, THEIRS), default=OURS)
    parser.add_argument("--quick", action="store_true", help="small")
    parser.add_argument("--warm-rounds", type=int, default=2)
    parser.add_argument("--top", type=int, default=20, help="how many functions to print")
    parser.add_argument("--data-dir", type=Path, default=Path("build/bench"))
    options = parser.parse_args(arguments)
    console = Console()
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    cases = [case for case in selected(all_cases(QUICK if options.quick else FULL), []) if case.name == options.work]
    if spy is None or not cases:
        console.print("py-spy is missing: pip install py-spy" if cases else f"no work {options.work}")
        return 2
    options.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.data_dir, prefix="profile-") as name:
        directory = Path(name).resolve()
        try:
            broker = Penstock()
            broker.prepare()
            jars = Connector().prepare() if options.side == THEIRS else []
            with SparkSide(broker, directory, jars) as spark:
                spark.fill(cases)
                for _ in range(options.warm_rounds):
                    spark.measure(cases[0], options.side)
                profile(cases[0], options.side, spark, Watch(spark, spy, directory), options.top, console)
        except (PeerUnavailable, LoadFailed) as problem:
            console.print(str(problem), style="red", markup=False)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
