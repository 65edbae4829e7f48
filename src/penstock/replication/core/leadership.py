"""One partition as its leader sees it, for one leader epoch: who has what, what is committed, who is in sync.

The high watermark is the first offset that is not committed. It is the least that any replica of the *maximal* ISR has:
the recorded members and all that may have become members (in_sync.py). So whoever can be elected has everything below
it, whatever the leader has not heard yet: that is why a leader that lost its session, or was paused through its own
replacement, does no harm before it notices.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.replication.core.follower import Follower
from penstock.replication.core.followers import Followers, LeadershipSettings
from penstock.replication.core.in_sync import RETRY_MS, Altered, Answer, Declined, InSync, Member, Proposal, Unanswered
from penstock.replication.core.replica_log import ReplicaLog, divergence
from penstock.storage.core.leader_epochs import EpochEnd


class FollowerFetch(NamedTuple):
    """A follower's Fetch of this partition. Its offset acknowledges everything below it."""

    replica: int
    # From the request's ReplicaState (KIP-903).
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start: int
    # Tells connections apart, if that matters.
    connection: int = 0


class Outcome(NamedTuple):
    """Whether the high watermark has advanced, and what to send to the controller, if anything."""

    advanced: bool = False
    proposal: Proposal | None = None


class Standing(Enum):
    """What has become of an offset for which acks=all waits."""

    WAITING = auto()
    COMMITTED = auto()
    # Committed, but the ISR has shrunk below min.insync.replicas since: NOT_ENOUGH_REPLICAS_AFTER_APPEND, as in Kafka.
    COMMITTED_BELOW_MIN_ISR = auto()


NOTHING: Final = Outcome()
ADVANCED: Final = Outcome(advanced=True)


class Leadership:
    """Ends with its leader epoch: `is_over` tells when a later one is known. All methods are called in one thread.

    Make it after the log has begun the epoch (`Log.begin_epoch`), and only for an epoch that was given to this life of
    the broker: a leader that restarts may have lost records that others have under the same epoch.

    `live` is shared with the owner, who keeps it current: brokers that may be in an ISR (registered, admitted, not
    draining) and their broker epochs. Set `is_suspended` while the session with the store is in doubt: then nothing is
    proposed. `acknowledged_end` is what the local log counts with: its durable end with flush.policy=acked, its
    end with os.
    """

    def __init__(
        self,
        node_id: int,
        recorded: Altered,
        settings: LeadershipSettings,
        log: ReplicaLog,
        live: Mapping[int, int],
        *,
        acknowledged_end: int,
        high_watermark: int,
        now_ms: int,
    ) -> None:
        """`high_watermark`: what this replica knew as a follower; the start of its log if it knew nothing."""
        self.node_id = node_id
        self.since_ms = now_ms
        self.leader_epoch = recorded.state.leader_epoch
        self.epoch_start = log.end_offset
        self.high_watermark = high_watermark
        self.is_suspended = False
        self.is_over = False
        # The log has failed. Followers cannot reach its end then, which is not their fault: one of them is to lead.
        self.is_resigning = False
        self._log = log
        self._live = live
        self._acknowledged_end = acknowledged_end
        self._in_sync = InSync(recorded.state, recorded.version)
        self._followers = Followers(settings, log, live)
        # Whether acks=all may append.
        self.has_enough_in_sync = False
        self._may_advance = False
        # No follower to wait for, none that could come.
        self._is_alone = False
        self._take_over(now_ms)
        self._advance(now_ms)

    # What is known

    @property
    def recorded(self) -> Altered:
        """The newest state that this leader knows, and its version."""
        return Altered(self._in_sync.state, self._in_sync.version)

    @property
    def latest_is_known(self) -> bool:
        """Until then ListOffsets(latest) is OFFSET_NOT_AVAILABLE: the leader before may have shown more (KIP-207)."""
        return self.high_watermark >= self.epoch_start

    def standing(self, next_offset: int) -> Standing:
        """Of an append with acks=all that ended before `next_offset`; it was refused if not `has_enough_in_sync`."""
        if self.high_watermark < next_offset:
            return Standing.WAITING
        if len(self._in_sync.maximal) < self._in_sync.state.min_insync_replicas:
            return Standing.COMMITTED_BELOW_MIN_ISR
        return Standing.COMMITTED

    @property
    def others_in_sync(self) -> Set[int] | None:
        """All who could be elected instead of this leader. None: others may be, too."""
        return self._in_sync.maximal - {self.node_id} if self._may_advance else None

    def low_watermark(self) -> int:
        """Below it no live replica has anything: when DeleteRecords is done."""
        starts = [follower.log_start for replica, follower in self._followers.table.items() if replica in self._live]
        return min([self._log.start_offset, *starts])

    def follower(self, replica: int) -> Follower | None:
        """For closest-replica reads and metrics; not to be changed."""
        return self._followers.table.get(replica)

    # What happens

    def advance(self, acknowledged_end: int, now_ms: int) -> bool:
        """The local log has more. True if the high watermark has advanced."""
        self._acknowledged_end = acknowledged_end
        if self._is_alone:
            if acknowledged_end <= self.high_watermark:
                return False
            self.high_watermark = acknowledged_end
            return True
        return self._advance(now_ms)

    def on_fetch(self, fetch: FollowerFetch, now_ms: int) -> Outcome | EpochEnd | Refused:
        """Call it before reading for the follower. EpochEnd: its log parts from ours, it gets no records but this."""
        follower = self._followers.table.get(fetch.replica)
        if (refusal := self._refusal(fetch, follower)) is not None or follower is None:
            return refusal or _not_a_replica(fetch)
        if (parting := divergence(self._log, fetch.offset, fetch.last_fetched_epoch)) is not None:
            return parting
        before = follower.acknowledged_end
        follower.fetched(fetch.offset, fetch.log_start, fetch.broker_epoch, self._log.end_offset, now_ms)
        proposal, is_member = None, fetch.replica in self._in_sync.maximal
        if not is_member and self._may_join(follower, now_ms):
            proposal = self._propose(now_ms)
        elif self._followers.has_lost(follower, self.high_watermark) and (
            is_member or fetch.replica in self._in_sync.state.eligible_leaders
        ):
            # Before anybody elects it.
            proposal = self._propose(now_ms)
        advanced = follower.acknowledged_end != before and self._advance(now_ms)
        if proposal is None:
            return ADVANCED if advanced else NOTHING
        return Outcome(advanced, proposal)

    def on_state(self, state: PartitionState, version: int, now_ms: int) -> Outcome:
        """From the controller or the store. What is not newer is ignored."""
        if version <= self._in_sync.version or self.is_over:
            return NOTHING
        if state.leader != self.node_id or state.leader_epoch != self.leader_epoch:
            self.is_over = True
            return NOTHING
        for replica in self._in_sync.recorded.difference(state.isr).intersection(self._followers.table):
            self._followers.table[replica].left_isr()
        self._in_sync.adopt(state, version)
        self._take_over(now_ms)
        return self.tick(now_ms)

    def on_answer(self, proposal: Proposal, answer: Answer, now_ms: int) -> Outcome:
        """Every proposal gets exactly one, `Unanswered` when the caller gave up waiting; it may be late or stale."""
        if isinstance(answer, Altered):
            if answer.version > self._in_sync.version:
                return self.on_state(answer.state, answer.version, now_ms)
            answer = Unanswered.UNANSWERED
        if self._in_sync.settle(proposal, answer, now_ms) and answer is Declined.INELIGIBLE_REPLICA:
            for member in proposal.isr:
                if member.replica not in self._in_sync.recorded and member.replica in self._followers.table:
                    self._followers.table[member.replica].declined_until_ms = now_ms + 2 * RETRY_MS
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> Outcome:
        """At least twice in replica.lag.time.max.ms: who lags behind leaves, who was to be waited for no longer is."""
        proposal = None if self._is_alone else self._propose(now_ms)
        return Outcome(self._advance(now_ms), proposal)

    # Deciding

    def _take_over(self, now_ms: int) -> None:
        """A new recorded state."""
        state = self._in_sync.state
        self._followers.become([replica for replica in state.replicas if replica != self.node_id], state.isr, now_ms)
        self.has_enough_in_sync = len(self._in_sync.recorded) >= state.min_insync_replicas
        # With too small an ISR, those who left it (KIP-966's eligible leaders) would miss something. So would one that
        # is remembered, and may win an election by log ends with what it wrote as a leader: that counts for more than
        # what an earlier epoch wrote and this leader would commit.
        self._may_advance = self.has_enough_in_sync and not state.last_known_eligible_leaders
        self._is_alone = not self._followers.table and self._may_advance

    def _refusal(self, fetch: FollowerFetch, follower: Follower | None) -> Refused | None:
        if fetch.leader_epoch < self.leader_epoch:
            return Refused(Problem.FENCED_LEADER_EPOCH, f"leader epoch {fetch.leader_epoch} is over")
        if fetch.leader_epoch > self.leader_epoch:
            return Refused(Problem.UNKNOWN_LEADER_EPOCH, f"leader epoch {fetch.leader_epoch} is not known here yet")
        if follower is not None and fetch.broker_epoch < max(
            follower.broker_epoch, self._live.get(fetch.replica, follower.broker_epoch)
        ):
            return Refused(Problem.NOT_LEADER, f"a later life of broker {fetch.replica} has registered")
        return None

    def _advance(self, now_ms: int) -> bool:
        if not self._may_advance:
            return False
        end = self._acknowledged_end
        maximal = self._in_sync.maximal
        for replica, follower in self._followers.table.items():
            if follower.acknowledged_end < end and (replica in maximal or self._followers.is_awaited(follower, now_ms)):
                end = follower.acknowledged_end
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    def _may_join(self, follower: Follower, now_ms: int) -> bool:
        """It has all that may be committed. The high watermark alone does not tell: a new leader knows an old one."""
        end = follower.acknowledged_end
        return (
            end >= self.high_watermark
            and end >= self.epoch_start
            and not self._followers.lags_by_messages(follower)
            and self._followers.is_eligible(follower, now_ms)
        )

    def _propose(self, now_ms: int) -> Proposal | None:
        in_sync = self._in_sync
        if self.is_suspended or self.is_over or not in_sync.may_propose(now_ms):
            return None
        followers, lost = self._followers.table, self._lost()
        wanted = {self.node_id}
        for replica, follower in followers.items():
            is_member = replica in in_sync.recorded
            is_fit = replica not in lost and (self.is_resigning or not self._followers.lags(follower, now_ms))
            if is_fit if is_member else self._may_join(follower, now_ms):
                wanted.add(replica)
        # Of what is in doubt the next version is the end, so it is asked for even if nothing else would change. It ends
        # also what the controller remembers of those who came back in doubt: this leader lives, and has everything.
        in_doubt = in_sync.doubtful or in_sync.state.last_known_eligible_leaders
        if wanted == in_sync.recorded and not in_doubt and not lost:
            return None
        members = [
            Member(replica) if replica in in_sync.recorded else Member(replica, followers[replica].broker_epoch)
            for replica in in_sync.state.replicas
            if replica in wanted
        ]
        return in_sync.propose(tuple(members), lost)

    def _lost(self) -> tuple[int, ...]:
        """Who could be elected by what is recorded, and would take back what was committed."""
        recorded, eligible = self._in_sync.recorded, self._in_sync.state.eligible_leaders
        return tuple(
            replica
            for replica, follower in self._followers.table.items()
            if self._followers.has_lost(follower, self.high_watermark) and (replica in recorded or replica in eligible)
        )


def _not_a_replica(fetch: FollowerFetch) -> Refused:
    # It may have heard of a reassignment before us.
    return Refused(Problem.UNKNOWN_LEADER_EPOCH, f"broker {fetch.replica} is not known as a replica here")
