"""Events in `__usage` that no client can write: as brokers do, twice and late."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count as numbers

from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.spark.usage_run import Counts, count

from penstock.cluster.core.messages import Addressed, AppendUsage, decode_reply, encode
from penstock.rpc.core.call import private_call
from penstock.telemetry.usage import Usage
from penstock.telemetry.usage_events import UsageEvents
from penstock.units import HOUR_MS
from penstock.wire.records import Record, build_batch

_producers = numbers(10**6)


def append(bootstrap: str, partition: int, records: Iterable[Record]) -> None:
    """As a broker does whose answers got lost, and who has a new producer id since."""
    with RawConnection(bootstrap) as connection:
        cluster_id = connection.ask(requests.metadata()).cluster_id
        for record in records:
            alone = [record._replace(offset=0)]
            batch = bytes(build_batch(alone, producer_id=next(_producers), producer_epoch=0, base_sequence=0))
            message = Addressed(cluster_id, 1, AppendUsage(partition, batch))
            connection.send_bytes(bytes(private_call(encode(message), decode_reply).frame))
            assert not decode_reply(connection.receive_frame()[4:]).problem


def event_of(life: UsageEvents, to_ms: int, tenant: str, messages: int, sent: Counts, *, last: bool = False) -> Record:
    """Of a node on which one tenant has sent something, in one request."""
    counted = Usage(10)
    counted.of_api("Produce").count(tenant, "orders", messages, 100 * messages, 1)
    count(sent, tenant, "Produce", messages, 100 * messages, 1)
    (event,) = life.cut(counted.take(), to_ms, last=last)
    return Record(0, event.timestamp_ms, event.key, event.value)


def late_events(day_ms: int, sent: Counts) -> list[Record]:
    """Of a node that could not write them on that day, and was killed in its sixth hour."""
    life = UsageEvents(9, 100, day_ms, gap_before=False)
    after = UsageEvents(9, 200, day_ms + 6 * HOUR_MS, gap_before=True)
    return [
        event_of(life, day_ms + 2 * HOUR_MS, "tenant03", 1000, sent),
        event_of(life, day_ms + 5 * HOUR_MS, "tenant04", 7, sent),
        event_of(after, day_ms + 7 * HOUR_MS, "tenant04", 9, sent, last=True),
    ]
