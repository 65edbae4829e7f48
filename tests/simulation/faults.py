"""What goes wrong in a run, drawn from its seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tests.simulation.broker import Broker
from tests.simulation.network import Network, Process
from tests.simulation.reading import delete_records
from tests.simulation.store import KEY, STORE, Store

from penstock.cluster.core.events import AlterReassignments, ReassignmentWish
from penstock.coordination.paths import NO_EPOCH
from penstock.replication.core.in_sync import Proposal

FATE = 1000


class Faults(Process):
    """Each lasts for a while; several may overlap. `heal` ends all of them."""

    def __init__(self, network: Network, store: Store, brokers: Mapping[int, Broker]) -> None:
        super().__init__(FATE)
        self.network = network
        self.random = network.random
        self.store = store
        self.brokers = brokers
        self.is_over = False
        self.counts: Counter[str] = Counter()

    def begin(self, until_ms: int, every_ms: int) -> None:
        time_ms = int(self.random.random() * every_ms)
        while time_ms < until_ms:
            self.network.after(time_ms, self, self._strike)
            time_ms += 1 + int(self.random.random() * 2 * every_ms)

    def heal(self) -> None:
        self.is_over = True
        self.network.heal()
        for broker in self.brokers.values():
            broker.sync_ms = 10
            if not broker.is_up:
                broker.start()
            elif broker.is_paused:
                self.network.resume(broker)

    def _strike(self) -> None:
        if not self.is_over:
            name, strike = self.random.choice(list(KINDS.items()))
            self.counts[name] += 1
            strike(self)

    def a_broker(self) -> Broker:
        return self.random.choice(list(self.brokers.values()))

    def the_leader(self) -> Broker:
        leading = [broker for broker in self.brokers.values() if broker.is_up and broker.replica.leading is not None]
        return self.random.choice(leading) if leading else self.a_broker()

    def later(self, call: Callable[[], None], longest_ms: int = 3000) -> None:
        def unless_over() -> None:
            if not self.is_over:
                call()

        self.network.after(20 + int(self.random.random() ** 2 * longest_ms), self, unless_over)

    # Brokers

    def bring_back(self, broker: Broker) -> None:
        if not broker.is_up:
            broker.start()

    def _notice_death(self, dead: Broker) -> None:
        """The connection was reset and nobody answers at that address: its controller may learn of it so."""
        life = dead.life
        if self.random.random() < 0.5:
            return

        def notice() -> None:
            for broker in self.brokers.values():
                if broker.controller is not None and not dead.is_up and dead.life == life and not broker.is_paused:
                    broker.controller.found_dead(dead.name)

        self.network.after(5 + int(self.random.random() * 30), self, notice)

    def on_proposal(self, leader: Broker, proposal: Proposal) -> int:
        """The worst moment: somebody is about to join the ISR."""
        joining = [member.replica for member in proposal.isr if member.broker_epoch != NO_EPOCH]
        if self.is_over or not joining or self.random.random() > 0.3:
            return 0
        kind, joiner = self.random.randrange(3), self.brokers[joining[0]]
        if kind == 0:
            self.counts["deaf leader of one that joins"] += 1
            self.cut({(name, leader.name) for name in (STORE, *self.brokers)})
            return 0
        if kind == 1:
            self.counts["old proposal for one that joins"] += 1
            link = {(joiner.name, leader.name)}
            self.network.after(1000 + int(self.random.random() * 1000), self, self.cut, link, 5000)
            return 2000 + int(self.random.random() * 4000)
        self.counts["death of one that joins"] += 1
        wipe = self.random.random() < 0.5
        self.network.after(1, self, self.strike_down, joiner, lambda victim: victim.cut_power(wipe=wipe), 100)
        return int(self.random.random() * 2000)

    def strike_down(self, broker: Broker, how: Callable[[Broker], None], longest_ms: int = 3000) -> None:
        """It comes back some time later."""
        if broker.is_up and not self.is_over:
            how(broker)
            self._notice_death(broker)
            self.later(lambda: self.bring_back(broker), longest_ms)

    def stand_still(self, broker: Broker) -> None:
        if broker.is_up and not broker.is_paused:
            broker.is_paused = True
            life = broker.life
            self.later(lambda: self.network.resume(broker) if broker.life == life else None)

    def cut(self, links: set[tuple[int, int]], longest_ms: int = 3000) -> None:
        if not self.is_over:
            self.network.cuts |= links
            self.later(lambda: self.network.cuts.difference_update(links), longest_ms)


def _kill(fate: Faults) -> None:
    fate.strike_down(fate.a_broker(), Broker.kill)


def _kill_leader(fate: Faults) -> None:
    fate.strike_down(fate.the_leader(), Broker.kill)


def _restart(fate: Faults) -> None:
    """SIGTERM: it hands over first, if the controller answers in time."""
    broker = fate.a_broker()
    life = broker.life

    def stop(_: object) -> None:
        if broker.life == life:
            # Whoever wanted to stop must: the controller has taken everything from it.
            broker.stop()
            if fate.is_over:
                broker.start()
            else:
                fate.later(lambda: fate.bring_back(broker))

    if broker.is_up and not broker.is_paused:
        broker.hand_over(stop)


def _cut_power(fate: Faults) -> None:
    fate.strike_down(fate.a_broker(), Broker.cut_power)


def _cut_power_of_several(fate: Faults) -> None:
    several = list(fate.brokers.values())
    if fate.random.random() < 0.5:
        several = fate.random.sample(several, fate.random.randint(2, len(several)))
    for broker in several:
        if broker.is_up:
            fate.strike_down(broker, Broker.cut_power)
        else:
            broker.cut_power_while_down()


def _wipe(fate: Faults) -> None:
    """Never more than what the others can make up for: the rest is for the rules about waiting."""
    broker = fate.a_broker()
    state = broker.history.state
    others = [] if state is None else [node for node in state.isr if node != broker.name]
    if any(node not in broker.history.harmed for node in others):
        fate.strike_down(broker, lambda victim: victim.cut_power(wipe=True))


def _pause(fate: Faults) -> None:
    fate.stand_still(fate.a_broker())


def _pause_leader(fate: Faults) -> None:
    fate.stand_still(fate.the_leader())


def _slow_disk(fate: Faults) -> None:
    broker = fate.a_broker()
    broker.sync_ms = 600

    def recover() -> None:
        broker.sync_ms = 10

    fate.later(recover)


def _delete_records(fate: Faults) -> None:
    leader = fate.the_leader()
    if leader.is_up and not leader.is_paused:
        delete_records(leader.replica)


def _cut_one_way(fate: Faults) -> None:
    names = fate.random.sample(list(fate.brokers), 2)
    fate.cut({(names[0], names[1])})


def _cut_off(fate: Faults) -> None:
    """One broker from all others, in one direction or both; clients and the store may still reach it."""
    alone = fate.a_broker().name
    others = [name for name in fate.brokers if name != alone]
    links = {(alone, name) for name in others}
    if fate.random.random() < 0.7:
        links |= {(name, alone) for name in others}
    fate.cut(links)


def _cut_from_store(fate: Faults) -> None:
    broker = fate.the_leader() if fate.random.random() < 0.5 else fate.a_broker()
    fate.cut({(broker.name, STORE), (STORE, broker.name)})


def _end_session(fate: Faults) -> None:
    session_id = fate.store.session_of(fate.a_broker())
    if session_id is not None:
        fate.store.expire(session_id)


def _spoil_network(fate: Faults) -> None:
    network, random = fate.network, fate.random.random
    network.loss, network.doubling, network.long_delay = random() * 0.15, random() * 0.2, random() * 0.1

    def recover() -> None:
        network.loss = network.doubling = network.long_delay = 0.0

    fate.later(recover)


def _move_replicas(fate: Faults) -> None:
    target = tuple(fate.random.sample(list(fate.brokers), fate.random.choice((2, 3, 3))))
    _wish(fate, target)
    if fate.random.random() < 0.3:
        fate.later(lambda: _wish(fate, None), 1000)


def _wish(fate: Faults, target: tuple[int, ...] | None) -> None:
    """None: the move that is under way ends where it began."""
    request = AlterReassignments(0, (ReassignmentWish(KEY, target),))
    for broker in fate.brokers.values():
        if broker.controller is not None and not broker.is_paused:
            broker.controller.request(request, lambda answer: None)


def _change_min_isr(fate: Faults) -> None:
    fate.store.min_isr = fate.random.choice((1, 2, 3))
    for broker in fate.brokers.values():
        if broker.controller is not None and not broker.is_paused:
            broker.controller.topic_configured()


# Drawn with equal chances.
KINDS: dict[str, Callable[[Faults], None]] = {
    "kill": _kill,
    "kill of the leader": _kill_leader,
    "power cut": _cut_power,
    "power cut of several": _cut_power_of_several,
    "wipe": _wipe,
    "clean restart": _restart,
    "pause": _pause,
    "pause of the leader": _pause_leader,
    "one-way cut": _cut_one_way,
    "cut": _cut_off,
    "cut from the store": _cut_from_store,
    "session lost": _end_session,
    "bad network": _spoil_network,
    "slow disk": _slow_disk,
    "records deleted": _delete_records,
    "replicas move": _move_replicas,
    "min ISR changes": _change_min_isr,
}
