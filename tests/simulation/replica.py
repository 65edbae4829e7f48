"""One partition on one broker: the product's cores, with a log in memory and messages instead of sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.log import Entry, SimulatedLog, Value
from tests.simulation.network import OnAnswer

from penstock.coordination.paths import NO_LEADER, PartitionState
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.core.followers import LeadershipSettings
from penstock.replication.core.following import Append, Fetch, Fetched, Following, Restart, Truncate
from penstock.replication.core.in_sync import Altered, Answer, Proposal
from penstock.replication.core.leadership import FollowerFetch, Leadership, Outcome, Standing
from penstock.storage.core.leader_epochs import EpochEnd

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

LAG_MS = 1500
FETCH_WAIT_MS = 300
FETCH_TIMEOUT_MS = 900
BATCHES_PER_FETCH = 8


class Produce(NamedTuple):
    values: tuple[Value, ...]
    acks_all: bool
    leader_epoch: int


class Produced(NamedTuple):
    offsets: tuple[int, ...]


class NotProduced(NamedTuple):
    """`is_certain`: none of it was appended."""

    problem: Problem
    is_certain: bool


class FetchReply(NamedTuple):
    entries: list[Entry]
    high_watermark: int
    log_start: int
    parting: EpochEnd | None


class OutOfRange(NamedTuple):
    start: int
    end: int


class Replica:
    def __init__(self, broker: Broker, log: SimulatedLog) -> None:
        self.broker = broker
        self.network = broker.network
        self.log = log
        self.acked = broker.setup.acked
        self.settings = LeadershipSettings(LAG_MS, broker.setup.max_messages)
        self.state: PartitionState | None = None
        self.version = -1
        self.leading: Leadership | None = None
        self.following: Following | None = None
        self.high_watermark = log.start_offset
        self._waiters: list[tuple[int, tuple[int, ...], OnAnswer]] = []
        self._parked: list[tuple[FollowerFetch, OnAnswer, int]] = []
        self._told: dict[int, int] = {}
        self._is_syncing = False

    @property
    def acknowledged_end(self) -> int:
        return self.log.durable_offset if self.acked else self.log.end_offset

    # Metadata

    def learn(self, state: PartitionState, version: int, *, may_lead: bool) -> None:
        if version < self.version or (version == self.version and (self.leading or self.following)):
            return
        self.state, self.version = state, version
        now_ms = self.network.now_ms
        if self.leading is not None:
            self._heed(self.leading.on_state(state, version, now_ms))
            if not self.leading.is_over:
                self.broker.history.leads_by(self.leading.recorded.version)
                return
            self.resign()
        if state.leader == self.broker.name:
            self.following = None
            if may_lead:
                self._lead(state, version)
        elif self.broker.name not in state.replicas:
            self.following = None
            # Its files are deleted.
            self.log.restart_at(0)
            self.high_watermark = 0
        elif state.leader == NO_LEADER:
            self.following = None
        elif self.following is None or self.following.leader_epoch != state.leader_epoch:
            self.following = Following(
                state.leader,
                state.leader_epoch,
                self.log,
                waits_for_sync=self.acked,
                high_watermark=self.high_watermark,
            )
            self.pump()

    def _lead(self, state: PartitionState, version: int) -> None:
        self.broker.history.begins_to_lead(self.broker, state, version)
        self.log.begin_epoch(state.leader_epoch)
        self.leading = Leadership(
            self.broker.name,
            Altered(state, version),
            self.settings,
            self.log,
            self.broker.live,
            acknowledged_end=self.acknowledged_end,
            high_watermark=self.high_watermark,
            now_ms=self.network.now_ms,
        )
        self.leading.is_suspended = self.broker.is_suspended
        self._told = {}
        self._advanced()
        self._heed(self.leading.tick(self.network.now_ms))
        self.sync()

    def resign(self) -> None:
        """Nobody knows what becomes of what was not committed yet."""
        self.leading = None
        waiters, self._waiters = self._waiters, []
        for _, _, reply in waiters:
            reply(NotProduced(Problem.NOT_LEADER, False))
        parked, self._parked = self._parked, []
        for _, fetch_reply, _ in parked:
            fetch_reply(Problem.NOT_LEADER)

    def stop_following(self) -> None:
        """A controller was told what the log has: it stays so until there is a leader."""
        self.following = None

    def tick(self) -> None:
        now_ms = self.network.now_ms
        if self.leading is not None:
            self.leading.is_suspended = self.broker.is_suspended
            self._heed(self.leading.tick(now_ms))
            self._wake(now_ms)
        else:
            self.pump()

    # Leading

    def produce(self, request: Produce, reply: OnAnswer) -> None:
        leading = self.leading
        if leading is None or request.leader_epoch > leading.leader_epoch:
            reply(NotProduced(Problem.NOT_LEADER, True))
            return
        if request.acks_all and not leading.has_enough_in_sync:
            reply(NotProduced(Problem.NOT_ENOUGH_REPLICAS, True))
            return
        offsets: list[int] = []
        for value in request.values:
            try:
                before = self.log.append(leading.leader_epoch, value)
            except PenstockError as error:
                reply(NotProduced(error.problem, not offsets))
                return
            offsets.append(self.log.end_offset - 1 if before is None else before.base_offset)
        if request.acks_all:
            self._await(max(offsets) + 1, tuple(offsets), reply)
        else:
            reply(Produced(tuple(offsets)))
        leading.advance(self.acknowledged_end, self.network.now_ms)
        self._advanced()
        self._wake(0)
        self.sync()

    def _await(self, next_offset: int, offsets: tuple[int, ...], reply: OnAnswer) -> None:
        assert self.leading is not None
        match self.leading.standing(next_offset):
            case Standing.WAITING:
                self._waiters.append((next_offset, offsets, reply))
            case Standing.COMMITTED:
                self.broker.history.acknowledges(self.broker, offsets)
                reply(Produced(offsets))
            case Standing.COMMITTED_BELOW_MIN_ISR:
                reply(NotProduced(Problem.NOT_ENOUGH_REPLICAS, False))

    def serve(self, fetch: FollowerFetch, reply: OnAnswer) -> None:
        """A follower's fetch."""
        if self.leading is None:
            reply(Problem.NOT_LEADER)
            return
        match self.leading.on_fetch(fetch, self.network.now_ms):
            case Refused(problem):
                is_range = problem is Problem.OFFSET_OUT_OF_RANGE
                reply(OutOfRange(self.log.start_offset, self.log.end_offset) if is_range else problem)
            case EpochEnd() as parting:
                reply(FetchReply([], self.leading.high_watermark, self.log.start_offset, parting))
            case outcome:
                self._heed(outcome)
                if self.leading is not None and not self._answer(fetch, reply):
                    self._parked.append((fetch, reply, self.network.now_ms + FETCH_WAIT_MS))

    def _answer(self, fetch: FollowerFetch, reply: OnAnswer, *, even_if_empty: bool = False) -> bool:
        leading = self.leading
        assert leading is not None
        is_news = leading.high_watermark > self._told.get(fetch.replica, -1)
        if self.log.end_offset <= fetch.offset and not is_news and not even_if_empty:
            return False
        self._told[fetch.replica] = leading.high_watermark
        entries = self.log.read(fetch.offset, fetch.offset + BATCHES_PER_FETCH)
        reply(FetchReply(entries, leading.high_watermark, self.log.start_offset, None))
        return True

    def _wake(self, expired_ms: int) -> None:
        """Those who wait for records, for a watermark, or too long."""
        if self._parked and self.leading is not None:
            parked, self._parked = self._parked, []
            for fetch, reply, until_ms in parked:
                if not self._answer(fetch, reply, even_if_empty=until_ms <= expired_ms):
                    self._parked.append((fetch, reply, until_ms))

    def _heed(self, outcome: Outcome) -> None:
        if outcome.advanced:
            self._advanced()
            self._wake(0)
        if outcome.proposal is not None:
            self.broker.propose(self, outcome.proposal)

    def on_proposal_answered(self, leading: Leadership, proposal: Proposal, answer: Answer) -> None:
        if self.leading is not leading:
            return
        self._heed(leading.on_answer(proposal, answer, self.network.now_ms))
        if leading.is_over:
            self.resign()
        else:
            self.broker.history.leads_by(leading.recorded.version)

    def _advanced(self) -> None:
        leading = self.leading
        if leading is None or leading.high_watermark <= self.high_watermark:
            return
        self.high_watermark = leading.high_watermark
        self.broker.history.commits(self.broker, leading.leader_epoch, self.high_watermark)
        while self._waiters and self._waiters[0][0] <= self.high_watermark:
            self._await(*self._waiters.pop(0))

    # Following

    def pump(self) -> None:
        following, broker_epoch = self.following, self.broker.broker_epoch
        if following is None or broker_epoch is None:
            return
        fetch = following.next_fetch(self.network.now_ms)
        if fetch is None:
            return
        request = FollowerFetch(
            self.broker.name, broker_epoch, fetch.leader_epoch, fetch.offset, fetch.last_fetched_epoch, fetch.log_start
        )
        leader = self.broker.peers[following.leader]
        self.network.ask(
            self.broker,
            leader,
            leader.serve,
            request,
            lambda answer: self._on_fetched(following, fetch, answer),
            FETCH_TIMEOUT_MS,
        )

    def _on_fetched(self, following: Following, fetch: Fetch, answer: Any) -> None:
        if following is not self.following:
            return
        now_ms = self.network.now_ms
        match answer:
            case FetchReply():
                step = following.on_fetched(fetch, Fetched(answer.high_watermark, answer.log_start, answer.parting))
                if isinstance(step, Truncate):
                    self.log.truncate(step.offset)
                    self.broker.history.truncated(self.broker)
                elif isinstance(step, Restart):
                    self.log.restart_at(step.offset)
                    self.broker.history.truncated(self.broker)
                elif isinstance(step, Append):
                    self._append(following, fetch.offset, answer.entries, step)
            case OutOfRange(start, end):
                if following.on_refused(fetch, Problem.OFFSET_OUT_OF_RANGE, now_ms):
                    restart = following.on_leader_range(fetch, start, end)
                    if restart is not None:
                        self.log.restart_at(restart.offset)
                        self.broker.history.truncated(self.broker)
            case problem:
                following.on_refused(fetch, problem, now_ms)
                if following.is_fenced:
                    self.broker.read_soon()
        self.high_watermark = following.high_watermark
        self.pump()

    def _append(self, following: Following, offset: int, entries: list[Entry], step: Append) -> None:
        for place, entry in enumerate(entries):
            if not following.admits(offset + place, entry.epoch):
                break
            self.log.add(entry)
        start = following.on_appended(step)
        if start is not None:
            self.log.move_start(start)
        self.sync()

    # The disk

    def sync(self) -> None:
        """What is written becomes durable a little later; with flush.policy=os nobody waits for it."""
        if not self._is_syncing and self.log.durable_offset < self.log.end_offset:
            self._is_syncing = True
            random = self.network.random.random
            delay_ms = 1 + int(random() * self.broker.sync_ms) if self.acked else 100 + int(random() * 400)
            self.network.after(delay_ms, self.broker, self._synced, self.log.end_offset, self.log.truncations)

    def _synced(self, upto: int, truncations: int) -> None:
        self._is_syncing = False
        if truncations == self.log.truncations:
            self.log.sync(upto)
        if self.leading is not None:
            self.leading.advance(self.acknowledged_end, self.network.now_ms)
            self._advanced()
            self._wake(0)
        else:
            self.pump()
        self.sync()
