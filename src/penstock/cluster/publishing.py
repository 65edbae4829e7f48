"""Telling every broker what has changed: this one directly, the others one message at a time, each with all that has

come meanwhile. Whoever may have missed something is made to read the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.cluster.core.delta import BrokerRow, Delta, PartitionRow, RemovedRow, TopicRow
from penstock.cluster.metadata import Metadata
from penstock.cluster.reading import ClusterNodes, broker_rows
from penstock.cluster.showing import Failures
from penstock.errors import Problem, Refused
from penstock.later import Later, gather

# Done when the broker has carried it out; Refused: it knows a later controller, or did not answer.
Push = Callable[[int, Delta], Later[Refused | None]]

_RETRY_MS = 100


class Publishing:
    """Implements `Publisher` for one term of office."""

    def __init__(self, node_id: int, controller_epoch: int, metadata: Metadata, push: Push, clock: Clock) -> None:
        self._nothing = Delta(node_id, controller_epoch, 0)
        self._metadata = metadata
        self._push = push
        self._clock = clock
        self._peers: dict[int, _Peer] = {}
        self._brokers: Sequence[BrokerRow] = ()
        self._closed = False
        # Called when a broker says that a later controller has begun.
        self.when_deposed: Callable[[], None] = lambda: None

    def begin(self, nodes: ClusterNodes) -> Later[Failures]:
        done = self._metadata.take(nodes, self._nothing.controller_epoch)
        self._metadata.apply(self._nothing)
        rows = broker_rows(nodes.brokers)
        self._keep_peers(rows)
        for peer in self._peers.values():
            peer.make_it_read()
            peer.add(replace(self._nothing, brokers=rows))
        return done

    def publish(
        self,
        topics: Sequence[TopicRow] = (),
        partitions: Sequence[PartitionRow] = (),
        removed: Sequence[RemovedRow] = (),
        brokers: Sequence[BrokerRow] | None = None,
    ) -> Later[Failures]:
        rows = None if brokers is None else tuple(brokers)
        delta = replace(
            self._nothing,
            topics=tuple(topics),
            partitions=tuple(partitions),
            removed=tuple(removed),
            brokers=rows,
        )
        if self._closed or delta.is_empty:
            return Later.of({})
        if rows is not None:
            self._keep_peers(rows)
        for peer in self._peers.values():
            peer.add(delta)
        return self._metadata.apply(delta)

    def told(self) -> Later[None]:
        """When every broker has been told all that was published before, or has gone."""
        return gather([peer.idle() for peer in self._peers.values()]).map(lambda _: None)

    def close(self) -> None:
        self._closed = True
        self._keep_peers(())

    def _keep_peers(self, rows: Iterable[BrokerRow]) -> None:
        """Those that are registered; one that has registered anew begins anew."""
        wanted = {row.node_id: row.broker_epoch for row in rows if row.is_registered}
        wanted.pop(self._nothing.controller, None)
        for node_id in [n for n, peer in self._peers.items() if wanted.get(n) != peer.broker_epoch]:
            self._peers.pop(node_id).close()
        for node_id, broker_epoch in wanted.items():
            if node_id not in self._peers:
                self._peers[node_id] = _Peer(node_id, broker_epoch, self._push, self._clock, self._deposed)
                self._peers[node_id].add(replace(self._nothing, brokers=tuple(rows)))

    def _deposed(self) -> None:
        self.when_deposed()


class _Peer:
    def __init__(
        self, node_id: int, broker_epoch: int, push: Push, clock: Clock, when_deposed: Callable[[], None]
    ) -> None:
        self.broker_epoch = broker_epoch
        self._node_id = node_id
        self._push = push
        self._clock = clock
        self._when_deposed = when_deposed
        self._sequence = 0
        self._pending: Delta | None = None
        self._in_flight = False
        self._idle: list[Later[None]] = []
        self._closed = False

    def add(self, delta: Delta) -> None:
        self._pending = delta if self._pending is None else self._pending.then(delta)
        self._go_on()

    def make_it_read(self) -> None:
        """It expects the next number: one that is not makes it read the store."""
        self._sequence += 1

    def idle(self) -> Later[None]:
        if self._closed or (self._pending is None and not self._in_flight):
            return Later.of(None)
        later: Later[None] = Later()
        self._idle.append(later)
        return later

    def close(self) -> None:
        self._closed = True
        self._settle()

    def _go_on(self) -> None:
        if self._closed or self._in_flight:
            return
        if self._pending is None:
            self._settle()
            return
        numbered = replace(self._pending, sequence=self._sequence, broker_epoch=self.broker_epoch)
        delta, self._pending = numbered, None
        self._sequence += 1
        self._in_flight = True
        self._push(self._node_id, delta).when_done(lambda done: self._answered(delta, done.result()))

    def _answered(self, delta: Delta, refused: Refused | None) -> None:
        if refused is None:
            self._in_flight = False
            self._go_on()
            return
        if refused.problem is Problem.NOT_CONTROLLER:
            self.close()
            self._when_deposed()
            return
        # Whether it arrived is not known. What it brought is in the store.
        self.make_it_read()
        again = replace(delta, topics=(), partitions=(), removed=())
        self._pending = again if self._pending is None else again.then(self._pending)
        self._clock.call_at(self._clock.now_ms() + _RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._in_flight = False
        self._go_on()

    def _settle(self) -> None:
        idle, self._idle = self._idle, []
        for later in idle:
            later.complete(None)
