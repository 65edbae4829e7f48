"""The load generator: one process per measurement, so that no measurement inherits another's state.

echo '{"type": "produce", "address": "127.0.0.1:9092", ...}' | python -m benchmarks.load
"""

from __future__ import annotations

import gc
import sys

import msgspec
from benchmarks.load.connections import Connections
from benchmarks.load.job import LoadFailed
from benchmarks.load.latency import Latency
from benchmarks.load.produce import Produce, Single
from benchmarks.load.read import FanOut, Read
from benchmarks.load.transactions import Transactions
from confluent_kafka import KafkaException

AnyJob = Produce | Single | Read | FanOut | Latency | Connections | Transactions


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=AnyJob)
    gc.disable()
    try:
        outcome = job.run()
    except (LoadFailed, KafkaException) as failure:
        print(failure, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
