"""What every transactional client must see, on one node and on a cluster."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop import transactional as librdkafka
from tests.interop import transactional_aio as aiokafka
from tests.interop.server import Server

Scenario = Callable[[Server], None]

SCENARIOS: dict[str, Scenario] = {
    "confluent-kafka is fenced": librdkafka.fences_a_zombie,
    "confluent-kafka takes too long": librdkafka.aborts_what_takes_too_long,
    "confluent-kafka consumes, transforms and produces": librdkafka.transforms_exactly_once,
    "aiokafka commits, aborts and is fenced": aiokafka.commits_aborts_and_is_fenced,
    "aiokafka takes too long": aiokafka.aborts_what_takes_too_long,
    "aiokafka consumes, transforms and produces": aiokafka.transforms_exactly_once,
}
