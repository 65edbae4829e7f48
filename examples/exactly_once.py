"""Exactly once: orders become invoices. Each has one, whatever crashes when.

python examples/exactly_once.py [--crash]
"""

from __future__ import annotations

import argparse
import os

from confluent_kafka import Consumer, KafkaException, Producer

parser = argparse.ArgumentParser()
parser.add_argument("--bootstrap", default="127.0.0.1:9092")
parser.add_argument(
    "--crash", action="store_true", help="end when the first invoices are written, as a power cut would"
)
given = parser.parse_args()

consumer = Consumer(
    {
        "bootstrap.servers": given.bootstrap,
        "group.id": "exactly-once",
        "group.instance.id": "worker-1",  # whoever is started again takes its place at once
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
# Its name: one worker at a time has it. Whoever takes it over ends what the one before it left open.
producer = Producer({"bootstrap.servers": given.bootstrap, "transactional.id": "worker-1"})
producer.init_transactions()
consumer.subscribe(["orders"])

# Any error ends the program, and the transaction with it: started again, it goes on where the last commit left it.
while True:
    orders = consumer.consume(10, timeout=1.0)
    if not orders:
        continue
    producer.begin_transaction()
    for order in orders:
        if order.error():
            raise KafkaException(order.error())
        producer.produce("invoices-exactly-once", key=order.key(), value=order.value())
    if given.crash:
        producer.flush()
        os._exit(1)
    # Invoices and the position behind their orders come to be together, or not at all.
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
    producer.commit_transaction()
