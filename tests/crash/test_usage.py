"""kill -9 takes at most one interval of usage, and the gap shows."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from tests.crash.broker import QUIET, CrashingBroker, crashing_broker
from tests.interop.waiting import eventually
from tests.node.usage_topic import check_lives, read_events, used

# Long enough that what comes right behind an event is killed with its interval, whatever else the machine does.
INTERVAL_MS = 2000
SERIES = ("acme", "orders", "Produce")


def produce(broker: CrashingBroker, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "acme.1", **QUIET})
    for number in range(count):
        producer.produce("orders", str(number))
    assert producer.flush(20) == 0


def counted(broker: CrashingBroker) -> int:
    found = used(read_events(broker.bootstrap)).get(SERIES)
    return 0 if found is None else found.messages


def test_what_a_kill_takes_is_less_than_an_interval_and_shows(tmp_path: Path) -> None:
    with crashing_broker(tmp_path, {"usage.emit.interval.ms": str(INTERVAL_MS)}) as broker:
        produce(broker, 100)
        eventually(lambda: counted(broker) == 100, "it is written down")
        produce(broker, 10)
        broker.kill()
        broker.start()
        produce(broker, 1)
        eventually(lambda: counted(broker) % 10 == 1, "the next life has written, too")
        first, second = check_lives(read_events(broker.bootstrap))
        # Whether an interval ended between the last messages and the kill is up to the machine.
        assert used(first)[SERIES].messages in (100, 110)
        assert used(second)[SERIES].messages == 1
        assert not first[-1].value["last"] and second[0].value["gap_before"]
        assert second[0].value["from_ms"] > first[-1].value["to_ms"]
        broker.stop()
        broker.start()
        produce(broker, 1000)
        eventually(lambda: counted(broker) > 1000, "and the one after that")
        _, second, third = check_lives(read_events(broker.bootstrap))
        assert second[-1].value["last"] and not third[0].value["gap_before"], "a clean stop lacks nothing"
        assert used(second)[SERIES].messages == 1 and used(third)[SERIES].messages == 1000
