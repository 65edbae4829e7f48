"""What is measured: every workload, under which durability, and how large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.load.connections import Connections
from benchmarks.load.job import Job
from benchmarks.load.latency import Latency
from benchmarks.load.produce import Produce, Single
from benchmarks.load.read import FanOut, Read
from benchmarks.load.transactions import Transactions
from benchmarks.peers.broker import Durability
from msgspec import structs

# Measured by the runner itself: from the launch of a process to its first acknowledged message.
START = "start"


@dataclass(frozen=True)
class Case:
    """One workload. Its topic lives through all rounds: nothing is deleted inside a run."""

    name: str
    durability: Durability
    job: Job
    partitions: int = 1
    # Run once per broker before the rounds, for workloads that need a topic with something in every partition.
    fill: Produce | Transactions | None = None
    # Another case, with the same fill, whose topic it uses.
    topic_of: str = ""

    @property
    def topic(self) -> str:
        return f"bench-{self.topic_of or self.name}"


@dataclass(frozen=True)
class Scale:
    """Sizes. A full measurement takes two to five seconds; a quick one shows direction, not decimals."""

    produce_bytes: int
    small_messages: int
    synced_bytes: int
    small_batch_bytes: int
    single_messages: int
    read_bytes: int
    connection_messages: int
    fan_out_messages: int
    latency_s: float
    transactions: int
    warm_bytes: int
    warm_requests: int
    rounds: int


FULL = Scale(
    produce_bytes=600_000_000,
    small_messages=1_500_000,
    synced_bytes=1_500_000_000,
    small_batch_bytes=300_000_000,
    single_messages=64_000,
    read_bytes=500_000_000,
    connection_messages=150_000,
    fan_out_messages=150_000,
    latency_s=8,
    transactions=1_000,
    warm_bytes=1_500_000_000,
    warm_requests=60_000,
    rounds=7,
)
QUICK = Scale(
    produce_bytes=100_000_000,
    small_messages=500_000,
    synced_bytes=50_000_000,
    small_batch_bytes=50_000_000,
    single_messages=8_000,
    read_bytes=200_000_000,
    connection_messages=50_000,
    fan_out_messages=50_000,
    latency_s=2,
    transactions=200,
    warm_bytes=200_000_000,
    warm_requests=8_000,
    rounds=1,
)
RATES_PER_S = (1_000, 5_000, 10_000)
# What Kafka's own producer does unless told otherwise: librdkafka fills batches up to a megabyte, however many are on
# their way.
_KAFKA_BATCH_BYTES, _KAFKA_IN_FLIGHT = 16_384, 5
# As a stream processor writes them: 1 MB each, one of twenty aborted.
_BULK_MESSAGES, _BULK_ABORTED_PERCENT = 1_000, 5
# One takes 0.2 s, and a broker's processor time is told in hundredths of a second.
_WARM_READS = 8


def all_cases(scale: Scale) -> list[Case]:
    return [
        *_os_cases(scale),
        *_fsync_cases(scale),
        *_default_cases(scale),
        *_replicated_cases(Durability.RF3_OS, scale.produce_bytes // 2, scale),
        *_replicated_cases(Durability.RF3_FSYNC, scale.produce_bytes // 2, scale),
    ]


def selected(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """Cases whose name, with or without its durability, begins with the dashed parts of one of the words.

    produce-1k is produce-1k-acks-1-p16, but latency-1000 is not latency-10000.
    """
    if not only:
        return list(cases)
    return [case for case in cases if any(_is_called(case, word) for word in only)]


def by_topic(cases: Sequence[Case]) -> dict[str, Case]:
    """One case of each topic: what it says of the topic, the others say too."""
    return {case.topic: case for case in cases}


def _is_called(case: Case, word: str) -> bool:
    names = (case.name, f"{case.durability.value}/{case.name}", case.durability.value)
    return any(f"{name}-".startswith(f"{word}-") for name in names)


def warm_up(scale: Scale) -> list[Job]:
    """A JVM needs about this much before it is as fast as it will be; both sides get the same."""
    messages = scale.warm_bytes // 1000
    return [Produce(messages=messages), Read(messages=messages), Single(messages=scale.warm_requests)]


def _os_cases(scale: Scale) -> Iterator[Case]:
    kilobyte = scale.produce_bytes // 1000
    for size, label, messages in ((100, "100b", scale.small_messages), (1000, "1k", kilobyte)):
        for acks in ("all", "1"):
            for partitions in (1, 16):
                job = Produce(messages=messages, message_bytes=size, acks=acks)
                yield Case(f"produce-{label}-acks-{acks}-p{partitions}", Durability.OS, job, partitions)
    yield from _small_batch_cases(Durability.OS, scale)
    # Right behind produce-1k-acks-1-p16, the same load on few partitions, which it is compared with.
    on_many = Produce(messages=kilobyte, acks="1")
    yield Case("partitions-1000", Durability.OS, on_many, 1000, fill=on_many)
    read = scale.read_bytes // 1000
    for partitions in (1, 16):
        yield from _catch_up_cases(f"1k-p{partitions}", partitions, Read(messages=read), Produce(messages=read))
        yield from _committed_catch_up_cases(read, partitions)
    yield Case("single-16", Durability.OS, Single(messages=scale.single_messages), 16)
    yield Case("single-16-in-turn", Durability.OS, Single(messages=scale.single_messages, in_flight=1), 16)
    active = scale.connection_messages
    yield Case("connections-100", Durability.OS, Connections(messages=active), 16)
    yield Case("connections-100-idle-1000", Durability.OS, Connections(messages=active, idle=1000), 16)
    yield Case("fan-out-5", Durability.OS, FanOut(messages=scale.fan_out_messages), 16)
    yield _transactions_case(Durability.OS, scale)
    yield from _latency_cases(Durability.OS, RATES_PER_S, scale)


def _fsync_cases(scale: Scale) -> Iterator[Case]:
    yield from _synced_produce_cases(Durability.FSYNC, scale)
    yield _transactions_case(Durability.FSYNC, scale)
    yield from _latency_cases(Durability.FSYNC, RATES_PER_S[:1], scale)


def _default_cases(scale: Scale) -> Iterator[Case]:
    yield from _synced_produce_cases(Durability.DEFAULT, scale)
    yield _transactions_case(Durability.DEFAULT, scale)
    yield from _latency_cases(Durability.DEFAULT, RATES_PER_S[:1], scale)


def _replicated_cases(durability: Durability, produce_bytes: int, scale: Scale) -> Iterator[Case]:
    for partitions in (1, 16):
        bulk = Produce(messages=produce_bytes // 1000)
        yield Case(f"produce-1k-acks-all-p{partitions}", durability, bulk, partitions)
    single = Single(messages=scale.single_messages // 2, acks="all")
    yield Case("single-16-acks-all", durability, single, 16)
    yield _transactions_case(durability, scale)
    yield from _latency_cases(durability, RATES_PER_S[:1], scale)


def _synced_produce_cases(durability: Durability, scale: Scale) -> Iterator[Case]:
    for partitions in (1, 16):
        bulk = Produce(messages=scale.synced_bytes // 1000)
        yield Case(f"produce-1k-acks-all-p{partitions}", durability, bulk, partitions)
    yield from _small_batch_cases(durability, scale)
    for name, in_flight in (("single-16-acks-all", 5), ("single-16-acks-all-in-turn", 1)):
        job = Single(messages=scale.single_messages // 2, acks="all", in_flight=in_flight)
        yield Case(name, durability, job, 16)


def _small_batch_cases(durability: Durability, scale: Scale) -> Iterator[Case]:
    for partitions in (1, 16):
        job = Produce(
            messages=scale.small_batch_bytes // 1000, batch_bytes=_KAFKA_BATCH_BYTES, in_flight=_KAFKA_IN_FLIGHT
        )
        yield Case(f"produce-1k-acks-all-16k-batches-p{partitions}", durability, job, partitions)


def _transactions_case(durability: Durability, scale: Scale) -> Case:
    job = Transactions(transactions=scale.transactions)
    # Not for what it writes: the general warm-up has no transactions in it.
    return Case("transactions", durability, job, partitions=4, fill=job)


def _catch_up_cases(label: str, partitions: int, job: Read, fill: Produce | Transactions) -> Iterator[Case]:
    """First with what the workloads before have left of it in the page cache, then warm: it was read a moment ago."""
    warm = f"catch-up-{label}"
    yield Case(f"catch-up-as-found-{label}", Durability.OS, job, partitions, fill, topic_of=warm)
    yield Case(warm, Durability.OS, structs.replace(job, times=_WARM_READS), partitions, fill)


def _committed_catch_up_cases(messages: int, partitions: int) -> Iterator[Case]:
    """What was aborted has to be read past, and is not counted."""
    fill = Transactions(
        transactions=messages // _BULK_MESSAGES, messages_each=_BULK_MESSAGES, aborted_percent=_BULK_ABORTED_PERCENT
    )
    yield from _catch_up_cases(
        f"1k-committed-p{partitions}", partitions, Read(messages=fill.committed_messages()), fill
    )


def _latency_cases(durability: Durability, rates_per_s: Sequence[int], scale: Scale) -> Iterator[Case]:
    for rate_per_s in rates_per_s:
        job = Latency(rate_per_s=rate_per_s, duration_s=scale.latency_s)
        yield Case(f"latency-{rate_per_s}", durability, job)
