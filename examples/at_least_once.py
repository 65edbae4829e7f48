"""At least once: orders become invoices. Nothing is lost, and a crash does again what was in hand.

python examples/at_least_once.py [--crash]
"""

from __future__ import annotations

import argparse
import os

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

parser = argparse.ArgumentParser()
parser.add_argument("--bootstrap", default="127.0.0.1:9092")
parser.add_argument(
    "--crash", action="store_true", help="end when the first invoices are written, as a power cut would"
)
given = parser.parse_args()

consumer = Consumer(
    {
        "bootstrap.servers": given.bootstrap,
        "group.id": "at-least-once",
        "group.instance.id": "worker-1",  # whoever is started again takes its place at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
# What the producer itself has to send twice is there once: that is what idempotence means, and all of it.
producer = Producer({"bootstrap.servers": given.bootstrap, "acks": "all", "enable.idempotence": True})
consumer.subscribe(["orders"])


def written(error: KafkaError | None, invoice: Message) -> None:
    if error is not None:
        raise KafkaException(error)


while True:
    orders = consumer.consume(10, timeout=1.0)
    if not orders:
        continue
    for order in orders:
        if order.error():
            raise KafkaException(order.error())
        producer.produce("invoices-at-least-once", key=order.key(), value=order.value(), on_delivery=written)
    producer.flush()
    if given.crash:
        os._exit(1)
    # Last: whatever happened before, these orders are read again.
    consumer.commit(asynchronous=False)
