"""What happened in a run, and what must be true of it, checked as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.log import Entry

from penstock.coordination.paths import NO_LEADER, PartitionState

if TYPE_CHECKING:
    from tests.simulation.broker import Broker


class Finding(AssertionError):
    """Something that must never happen."""


class History:
    """The committed log is what any leader ever put below a high watermark.

    At all times, everyone in the ISR and everyone eligible has all of it; with flush.policy=acked durably. From that
    follows most of the rest. With flush.policy=os whoever loses power is exempt until the controller has taken it out,
    and something may be lost when none that was in sync is left unharmed.
    """

    def __init__(self, *, acked: bool) -> None:
        self.acked = acked
        self.brokers: dict[int, Broker] = {}
        self.committed: list[Entry] = []
        self.leaders: dict[int, tuple[int, int]] = {}
        self.state: PartitionState | None = None
        self.elected: dict[int, int] = {}
        # From which the newest leader was elected.
        self._before: PartitionState | None = None
        # By version: the members of the newest state that a leader has acted upon, and of all since. Nothing was
        # committed without those of the first, so they still have everything, unless they were harmed.
        self._since: dict[int, set[int]] = {}
        # Lost something, and the controller has not admitted them since.
        self.harmed: set[int] = set()
        self.wipes = 0
        self._wiped: set[int] = set()
        # Committed once, and lost in a way that the rules allow.
        self.lost: set[Entry] = set()
        self._lossy_epoch = -1
        self.elections = 0

    # Brokers

    def begins_to_lead(self, broker: Broker, state: PartitionState, version: int) -> None:
        epoch, leader = state.leader_epoch, (broker.name, broker.life)
        if self.leaders.setdefault(epoch, leader) != leader:
            raise Finding(f"epoch {epoch} has two leaders: {self.leaders[epoch]} and {leader}")
        if self.elected.get(epoch) != broker.name:
            raise Finding(f"broker {broker.name} leads epoch {epoch}, for which {self.elected.get(epoch)} was elected")
        if broker.name in self.harmed:
            raise Finding(f"broker {broker.name} leads epoch {epoch}, but its disk is not what was admitted")
        self.leads_by(version)

    def leads_by(self, version: int) -> None:
        """A leader knows this state."""
        self._since = {known: members for known, members in self._since.items() if known >= version}

    def commits(self, broker: Broker, leader_epoch: int, high_watermark: int) -> None:
        if leader_epoch < self._lossy_epoch:
            return
        log, committed = broker.log, self.committed
        known = min(high_watermark, len(committed))
        if log.read(log.start_offset, known) != committed[log.start_offset : known]:
            raise Finding(f"leader {broker.name} of epoch {leader_epoch} commits other records than were committed")
        if high_watermark > len(committed):
            if log.start_offset > len(committed) or log.end_offset < high_watermark:
                raise Finding(f"leader {broker.name} commits {high_watermark}, which it does not have")
            committed.extend(log.read(len(committed), high_watermark))
            self._check_members()

    def acknowledges(self, broker: Broker, offsets: tuple[int, ...]) -> None:
        if max(offsets) >= len(self.committed) and not self.lost:
            raise Finding(f"leader {broker.name} acknowledges {offsets}, but {len(self.committed)} are committed")

    def shows(self, broker: Broker, offset: int, entries: list[Entry]) -> None:
        """To a reader."""
        if entries != self.committed[offset : offset + len(entries)]:
            for place, entry in enumerate(entries):
                if entry not in self.lost and entry not in self.committed[offset + place : offset + place + 1]:
                    raise Finding(f"broker {broker.name} shows {entry} at {offset + place}, which is not what is there")

    def truncated(self, broker: Broker) -> None:
        self._check_members()

    def loses_power(self, broker: Broker) -> None:
        if not self.acked:
            self.harmed.add(broker.name)

    def wiped(self, broker: Broker) -> None:
        self.harmed.add(broker.name)
        self.wipes += 1
        self._wiped.add(broker.name)

    # The store

    def on_admitted(self, node_id: int, life: int) -> None:
        """What the life before had to give up has been taken from it."""
        if self.brokers[node_id].life == life and node_id in self.harmed:
            self.harmed.discard(node_id)
            if node_id in self._wiped:
                # A new disk counts for nothing, whatever it got before it was admitted.
                self._wiped.discard(node_id)
                for members in self._since.values():
                    members.discard(node_id)
            if self.state is not None and self.state.leader == node_id:
                self._check_elected(self.state)

    def on_partition(self, state: PartitionState, version: int) -> None:
        before, self.state = self.state, state
        if before is not None:
            self._check_step(before, state)
        if state.leader != NO_LEADER and (before is None or before.leader_epoch != state.leader_epoch):
            self.elections += 1
            self.elected[state.leader_epoch] = state.leader
            self._before = before
            if state.leader not in self.harmed:
                self._check_elected(state)
        self._since[version] = {*state.isr, *state.eligible_leaders}
        self._check_members()

    @property
    def is_nobody_left(self) -> bool:
        """All that had everything lost their disks: without an unclean election nobody may lead any more."""
        state = self.state
        assert state is not None
        members = (*state.isr, *state.eligible_leaders, *state.last_known_eligible_leaders)
        return state.leader == NO_LEADER and not members and self.wipes > 0

    def _check_step(self, before: PartitionState, after: PartitionState) -> None:
        if after.leader_epoch < before.leader_epoch:
            raise Finding(f"the leader epoch went back: {before} -> {after}")
        if after.leader_epoch == before.leader_epoch and after.leader != before.leader:
            raise Finding(f"another leader in the same epoch: {before} -> {after}")
        if after.leader != NO_LEADER and after.leader not in after.isr:
            raise Finding(f"a leader outside of the ISR: {after}")

    def _check_elected(self, after: PartitionState) -> None:
        leader, before = self.brokers[after.leader], self._before
        if before is None or self._has_all(leader):
            return
        candidates = {*before.isr, *before.eligible_leaders, *before.last_known_eligible_leaders}
        # Of who is no replica any more the files are gone.
        holders = set(after.replicas) - self._wiped
        candidates.update(*(members & holders for members in self._since.values()))
        unharmed = sorted(node for node in candidates if self._has_all(self.brokers[node]))
        if self.acked or unharmed:
            raise Finding(f"{before} -> {after}, but broker {leader.name} has not all; {unharmed} have it")
        log, kept = leader.log, 0
        while kept < len(self.committed) and (
            kept < log.start_offset or (kept < log.end_offset and log.entry(kept) == self.committed[kept])
        ):
            kept += 1
        self.lost.update(self.committed[kept:])
        del self.committed[kept:]
        self._lossy_epoch = after.leader_epoch

    def _has_all(self, broker: Broker) -> bool:
        log, committed = broker.log, self.committed
        end = log.durable_offset if self.acked else log.end_offset
        if end < len(committed) or log.start_offset > len(committed):
            return False
        return log.read(log.start_offset, len(committed)) == committed[log.start_offset :]

    def _check_members(self) -> None:
        state = self.state
        if state is None:
            return
        for node in (*state.isr, *state.eligible_leaders):
            if node not in self.harmed and not self._has_all(self.brokers[node]):
                log = self.brokers[node].log
                raise Finding(
                    f"broker {node} is in the ISR {state.isr} or eligible {state.eligible_leaders}, but has "
                    f"[{log.start_offset}, {log.durable_offset}/{log.end_offset}) of {len(self.committed)} committed"
                )
