"""A real node inside a test process, with a clock that the test advances.

with penstock.testing.node() as node:
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})
    ...
    node.advance(days=15)
"""

from penstock.testing.node import TestNode, node

__all__ = ["TestNode", "node"]
