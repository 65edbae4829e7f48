"""Batches on a way that breaks: requests that do not arrive, answers that do not, and both while more is under way."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.broker.link import PRODUCE, Fate, Frame, Late, Link
from tests.spark.consumed import values
from tests.spark.written import new_topic

from penstock.spark.core.failures import Unavailable
from penstock.spark.core.sink_options import SinkOptions, batch_sink_options
from penstock.spark.producer import Producer
from penstock.testing import node

ROWS = [b"%05d" % number for number in range(2000)]


def options_for(bootstrap: str, topic: str, **more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "kafka.batch.size": "500"}
    # Small requests, so that there are many.
    given["kafka.max.request.size"] = "1000"
    return batch_sink_options({**given, **{name.replace("_", "."): text for name, text in more.items()}})


def written(options: SinkOptions) -> None:
    with Producer(options) as producer:
        for start in range(0, len(ROWS), 100):
            producer.write(pa.RecordBatch.from_pydict({"value": pa.array(ROWS[start : start + 100])}), ("value",))
        producer.finish()


def breaking(*, every: int, arrives: bool) -> Callable[[Frame], Fate | Late | None]:
    """Of every so many Produce requests one finds its connection broken, with or without having arrived."""
    numbers = itertools.count(1)

    def fate(frame: Frame) -> Late | None:
        if frame.api_key != PRODUCE or next(numbers) % every:
            return None
        late = Late()
        if arrives:
            late.may_arrive.set_result(None)
        return late

    return fate


@pytest.mark.parametrize("arrives", [True, False], ids=["the answer is lost", "the request is lost"])
def test_nothing_is_lost_doubled_or_out_of_order(arrives: bool) -> None:
    link = Link(breaking(every=9, arrives=arrives))
    with node({"advertised.listener": link.address}) as served, link.leading_to(served.bootstrap):
        topic = new_topic(served.bootstrap)
        written(options_for(link.address, topic))
        assert values(served.bootstrap, topic) == ROWS


def test_it_ends_when_nobody_answers_for_too_long() -> None:
    link = Link(breaking(every=1, arrives=False))
    with node({"advertised.listener": link.address}) as served, link.leading_to(served.bootstrap):
        topic = new_topic(served.bootstrap)
        with pytest.raises(Unavailable, match=f"writing to {topic}-0 failed for 500 ms"):
            written(options_for(link.address, topic, kafka_delivery_timeout_ms="500"))
