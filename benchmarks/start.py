"""Time from the launch of a broker's process to its first acknowledged message."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.peers.broker import Durability, Peer, PeerUnavailable
from confluent_kafka import KafkaError, Message, Producer

_GIVE_UP_S = 60
# Asks again at once, or its own back-off would be measured.
_EAGER = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "retry.backoff.ms": 5,
    "linger.ms": 0,
    "log_level": 0,
}


def start_to_first_ack_s(peer: Peer, directory: Path, durability: Durability) -> float:
    """The topic does not exist yet: the broker creates it, as it would for a user's first message.

    The client comes when the port is open: librdkafka, whatever it is told, tries a broker that refused it again only
    when the next whole second of its own clock is over, and that second would be measured, on either side.
    """
    acknowledged_s: list[float] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is None:
            acknowledged_s.append(time.monotonic())

    with peer.launch(directory, durability) as broker:
        broker.await_listening()
        producer = Producer({"bootstrap.servers": broker.address, **_EAGER})
        producer.produce("first", b"message", on_delivery=delivered)
        deadline_s = broker.launched_s + _GIVE_UP_S
        while not acknowledged_s:
            producer.poll(0.05)
            broker.check_alive()
            if time.monotonic() > deadline_s:
                raise PeerUnavailable(f"{peer.name} acknowledged nothing within {_GIVE_UP_S} s:\n{broker.log_tail()}")
        return acknowledged_s[0] - broker.launched_s
