"""At most once: orders become invoices. A crash loses what was in hand, and nothing is ever done twice.

python examples/at_most_once.py [--crash]
"""

from __future__ import annotations

import argparse
import os

from confluent_kafka import Consumer, KafkaException, Producer

parser = argparse.ArgumentParser()
parser.add_argument("--bootstrap", default="127.0.0.1:9092")
parser.add_argument("--crash", action="store_true", help="end after the first invoice, as a power cut would")
given = parser.parse_args()

consumer = Consumer(
    {
        "bootstrap.servers": given.bootstrap,
        "group.id": "at-most-once",
        "group.instance.id": "worker-1",  # whoever is started again takes its place at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
producer = Producer({"bootstrap.servers": given.bootstrap, "acks": 0})
consumer.subscribe(["orders"])

while True:
    orders = consumer.consume(10, timeout=1.0)
    if not orders:
        continue
    # First: whatever happens from here on, nobody reads these orders again.
    consumer.commit(asynchronous=False)
    for order in orders:
        if order.error():
            raise KafkaException(order.error())
        producer.produce("invoices-at-most-once", key=order.key(), value=order.value())
        if given.crash:
            producer.flush()
            os._exit(1)
    producer.flush()
