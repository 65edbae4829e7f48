"""Calls to other brokers, above all to the controller, whoever that is."""

from __future__ import annotations

import asyncio

from penstock.cluster.core.delta import Delta
from penstock.cluster.core.image import Image
from penstock.cluster.core.messages import (
    Addressed,
    Forward,
    Hello,
    LogEndOf,
    MakeTopic,
    Message,
    Push,
    Reply,
    Stopping,
    decode_reply,
    encode,
)
from penstock.cluster.topics import NewTopic
from penstock.config.address import Address
from penstock.coordination.paths import Registration
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.rpc.core.call import private_call
from penstock.rpc.core.unanswered import Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.units import SECOND_MS
from penstock.wire.malformed import Malformed

# A broker that opens many new partitions answers late; one that is gone is known by other means.
PUSH_TIMEOUT_MS = 30 * SECOND_MS
# Between two commits of ZooKeeper's worst day; a leader asks again.
CONTROL_TIMEOUT_MS = 5 * SECOND_MS
# What clients wait for by default.
FORWARD_TIMEOUT_MS = 30 * SECOND_MS
_KNOWN_AFTER_S = 5.0
# A process that lives and is not stuck; of one that is nobody can tell.
_ANSWERS_WITHIN_S = 2.0


class Calls:
    def __init__(self, peers: Peers, image: Image) -> None:
        self._peers = peers
        self._image = image
        self._registered: dict[int, tuple[int, Address]] = {}

    def brokers_changed(self) -> None:
        """Whoever has registered is dialled without delay; whoever has not is not dialled."""
        for broker in self._image.brokers.values():
            if broker.node_id == self._image.node_id or broker.broker_epoch < 0:
                continue
            found = (broker.broker_epoch, Address(broker.host, broker.port))
            if self._registered.get(broker.node_id) != found:
                self._registered[broker.node_id] = found
                self._peers.register(broker.node_id, found[1])
        for node_id in list(self._registered):
            known = self._image.brokers.get(node_id)
            if known is None or known.broker_epoch < 0:
                del self._registered[node_id]
                self._peers.forget(node_id)
        self.greet(self._image.controller_id)

    def greet(self, node_id: int) -> None:
        """For a connection that is up: its end is the first sign of the other's death."""
        if node_id in self._registered:
            self.ask(node_id, Purpose.CONTROL, Hello(), CONTROL_TIMEOUT_MS)

    def ask(self, node_id: int, purpose: Purpose, message: Message, timeout_ms: int) -> Later[Reply]:
        """REQUEST_TIMED_OUT: it may have arrived. STORE_UNAVAILABLE: it has not."""
        addressed = Addressed(self._image.cluster_id, node_id, message)
        call = private_call(encode(addressed), _read_reply)
        return self._peers.call(node_id, purpose, call, timeout_ms).map(_reply)

    def ask_alone(self, node_id: int, message: Message, timeout_ms: int) -> Later[Reply]:
        """As `ask`, on a connection for this alone: also when this broker has left the others."""
        broker = self._image.brokers.get(node_id)
        if broker is None or broker.broker_epoch < 0:
            return Later.of(Reply.refused(Refused(Problem.STORE_UNAVAILABLE, f"broker {node_id} is not there")))
        call = private_call(encode(Addressed(self._image.cluster_id, node_id, message)), _read_reply)
        return self._peers.ask_at(Address(broker.host, broker.port), call, timeout_ms).map(_reply)

    async def answers(self, registration: Registration, broker_epoch: int) -> bool:
        """Whether this broker's own id, in this life, answers there: then there are two of it."""
        hello = private_call(encode(Addressed(self._image.cluster_id, self._image.node_id, Hello())), _read_reply)
        asked = self._peers.ask_at(Address(registration.host, registration.port), hello, CONTROL_TIMEOUT_MS)
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                reply = _reply(await asked.wait())
        except TimeoutError:
            return False
        return not reply.problem and reply.numbers == (broker_epoch,)

    def ask_controller(self, message: Message, timeout_ms: int = CONTROL_TIMEOUT_MS) -> Later[Reply]:
        """When it is another broker."""
        purpose = Purpose.FORWARDING if isinstance(message, Forward | MakeTopic) else Purpose.CONTROL
        return self.ask(self._image.controller_id, purpose, message, timeout_ms)

    def push(self, node_id: int, delta: Delta) -> Later[Refused | None]:
        return self.ask(node_id, Purpose.CONTROL, Push(delta), PUSH_TIMEOUT_MS).map(lambda reply: reply.refusal)

    def stopping(self, node_id: int, broker_epoch: int, timeout_ms: int) -> Later[Reply]:
        return self.ask_controller(Stopping(node_id, broker_epoch), timeout_ms)

    def log_end(self, node_id: int, topic: str, partition: int) -> Later[Reply]:
        return self.ask(node_id, Purpose.CONTROL, LogEndOf(topic, partition), CONTROL_TIMEOUT_MS)

    async def create(self, new: NewTopic, internal: bool) -> Refused | None:
        """By the controller; then waits until this broker knows the topic too."""
        message = MakeTopic(new.name, new.partition_count, new.replication_factor, dict(new.config), internal)
        reply = await self.ask_controller(message, FORWARD_TIMEOUT_MS).wait()
        refused = reply.refusal
        if refused is not None and refused.problem is not Problem.TOPIC_ALREADY_EXISTS:
            return refused
        try:
            async with asyncio.timeout(_KNOWN_AFTER_S):
                while self._image.topic(new.name) is None:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return Refused(Problem.REQUEST_TIMED_OUT, f"{new.name} was made, but is not known here yet")
        return None


def _read_reply(data: bytes) -> Reply:
    try:
        return decode_reply(data)
    except ValueError as error:
        raise Malformed("private answer", str(error)) from None


def _reply(answer: Reply | Unanswered) -> Reply:
    if isinstance(answer, Unanswered):
        problem = Problem.REQUEST_TIMED_OUT if answer.sent else Problem.STORE_UNAVAILABLE
        return Reply.refused(Refused(problem, answer.text))
    return answer
