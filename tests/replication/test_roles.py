"""What a partition does as leader, as follower and as neither, and how it comes from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.cluster_stand_in import HandController
from tests.storage.batches import NOW_MS, batch_of, sync

from penstock.clock import SystemClock
from penstock.cluster.core.image import BrokerImage, Image
from penstock.cluster.core.view import PartitionNode
from penstock.config.log import LogSettings
from penstock.config.replication import ReplicationSettings
from penstock.coordination.paths import NO_LEADER, PartitionState
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.core.leadership import FollowerFetch
from penstock.replication.partition import Partition
from penstock.replication.roles import Roles
from penstock.storage.log import Log
from penstock.wire.batch import read_header

EPOCH = 3
LAG_MS = 1000


class Followed:
    """Whom each partition fetches from."""

    def __init__(self) -> None:
        self.leaders: dict[Partition, int] = {}
        self.went_on = 0

    def follow(self, partition: Partition, leader: int) -> None:
        self.leaders[partition] = leader

    def leave(self, partition: Partition) -> None:
        self.leaders.pop(partition, None)

    def cut(self, partition: Partition, offset: int) -> None:
        """No log here has one."""

    def keep_holes(self, partition: Partition) -> None:
        """No log here has one."""

    def go_on(self, partition: Partition) -> None:
        self.went_on += 1

    def brokers_changed(self) -> None:
        """Its own epoch says nothing here."""

    def attach(self, take_role: Callable[[Partition], None]) -> None:
        """Nothing is ever being settled here."""


class Broker:
    """Number 1, with one partition."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        brokers = [BrokerImage(node_id, "", 0, None, broker_epoch=100 + node_id) for node_id in (1, 2, 3)]
        self.image = Image("cluster", 1, brokers)
        self.controller = HandController()
        self.fetching = Followed()
        replication = ReplicationSettings(replica_lag_time_max_ms=LAG_MS)
        self.clock = SystemClock()
        self.roles = Roles(self.image, self.controller, self.fetching, replication, self.clock)
        log = Log.open(PowerCutDisk(), "/log", settings or LogSettings(), now_ms=NOW_MS)
        self.partition = Partition(1, "orders", UUID(int=1), 0, log)
        self.version = 0
        self.told: list[bool] = []
        self.roles.listen(lambda partition: self.told.append(partition.leadership is not None))

    def learn(self, leader: int, epoch: int, isr: tuple[int, ...], *, min_isr: int = 1) -> None:
        self.version += 1
        state = PartitionState(leader, epoch, isr, (1, 2, 3), min_insync_replicas=min_isr)
        self.roles.learn(self.partition, state, self.version)

    def append(self, *values: bytes) -> int:
        batch = batch_of(*values)
        return self.partition.append(batch, read_header(batch), self.clock.now_ms()).next_offset

    def sync(self) -> None:
        sync(self.partition.log)
        self.partition.on_durable(self.clock.now_ms())

    def fetched_by(
        self, replica: int, offset: int, last_epoch: int = EPOCH, *, epoch: int = EPOCH, life: int = 100
    ) -> object:
        fetch = FollowerFetch(replica, life + replica, epoch, offset, last_epoch if offset else -1, 0)
        return self.partition.on_follower_fetch(fetch, self.clock.now_ms())


def test_with_followers_an_offset_is_committed_when_all_in_sync_have_it() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    committed = broker.partition.when_committed(broker.append(b"a", b"b"))
    broker.sync()
    assert not committed.done
    assert broker.fetched_by(2, 0) is None
    assert (committed.done, broker.partition.high_watermark) == (False, 0)
    assert broker.fetched_by(2, 2) is None
    assert (committed.result(), broker.partition.high_watermark) == (None, 2)


def test_the_leader_itself_counts_with_what_is_durable() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    committed = broker.partition.when_committed(broker.append(b"a"))
    broker.fetched_by(2, 1)
    assert not committed.done
    broker.sync()
    assert committed.result() is None


def test_a_follower_takes_no_records_and_one_that_becomes_it_leaves_nobody_waiting() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    waiting = broker.partition.when_committed(broker.append(b"a"))
    woken: list[int | None] = []
    broker.partition.watch("reader", woken.append)
    broker.learn(2, EPOCH + 1, (1, 2))
    refused = waiting.result()
    assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER
    assert woken and set(woken) == {None}
    assert broker.fetching.leaders == {broker.partition: 2}
    with pytest.raises(PenstockError) as raised:
        broker.append(b"b")
    assert raised.value.problem is Problem.NOT_LEADER
    assert broker.partition.log.end_offset == 1
    assert broker.told == [True, False]


def test_a_leader_again_has_a_new_epoch_and_listeners_hear_of_it() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    broker.append(b"a")
    broker.learn(1, EPOCH + 1, (1, 2))
    broker.append(b"b")
    assert broker.partition.log.epochs.epoch_of(1) == EPOCH + 1
    assert broker.told == [True, False, True]


def test_whoever_lost_the_session_leads_no_more_under_the_same_epoch() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    broker.roles.resign([broker.partition])
    broker.learn(1, EPOCH, (1, 2, 3))
    with pytest.raises(PenstockError, match="epoch"):
        broker.append(b"a")
    broker.learn(1, EPOCH + 1, (1,))
    assert broker.append(b"a") == 1


def test_without_a_leader_it_has_no_role() -> None:
    broker = Broker()
    broker.learn(2, EPOCH, (1, 2))
    broker.learn(NO_LEADER, EPOCH + 1, ())
    assert (broker.partition.following, broker.fetching.leaders) == (None, {})
    assert not broker.partition.may_be_read(as_closest=True)


def test_a_follower_does_not_stand_still_for_a_controller_that_does_not_know_its_leader() -> None:
    broker = Broker()
    broker.learn(2, EPOCH, (1, 2))
    assert not broker.roles.stand_still(broker.partition)
    assert broker.partition.following is not None
    broker.learn(-1, EPOCH + 1, ())
    assert broker.roles.stand_still(broker.partition)


def test_an_older_state_that_comes_late_changes_nothing() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1,))
    broker.version = -1
    broker.learn(2, EPOCH - 1, (2,))
    assert broker.append(b"a") == 1


def test_acks_all_needs_enough_in_sync_and_nothing_is_committed_below_that() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1,), min_isr=2)
    assert broker.partition.lacks_replicas
    committed = broker.partition.when_committed(broker.append(b"a"))
    broker.sync()
    broker.fetched_by(2, 1)
    assert not committed.done, "the controller has not been heard yet"
    (asked,) = broker.controller.asked
    assert (asked.leader_epoch, asked.version, asked.isr) == (EPOCH, 1, [(1, -1), (2, 102)])
    state = PartitionState(1, EPOCH, (1, 2), (1, 2, 3), min_insync_replicas=2)
    asked.answer.complete(PartitionNode(state, 2))
    assert committed.result() is None
    assert not broker.partition.lacks_replicas


def test_who_lags_behind_is_proposed_to_leave_and_then_not_waited_for() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2), min_isr=1)
    committed = broker.partition.when_committed(broker.append(b"a"))
    broker.sync()
    broker.partition.expire(broker.clock.now_ms() + 2 * LAG_MS)
    (asked,) = broker.controller.asked
    assert asked.isr == [(1, -1)]
    assert not committed.done
    asked.answer.complete(PartitionNode(PartitionState(1, EPOCH, (1,), (1, 2, 3)), 2))
    assert committed.result() is None


def test_the_controller_is_told_who_has_lost_what_was_committed() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    broker.append(b"a")
    broker.sync()
    broker.fetched_by(2, 1)
    broker.fetched_by(2, 0, life=200)
    (asked,) = broker.controller.asked
    assert (asked.isr, asked.lost) == ([(1, -1)], [2])


def test_a_follower_that_is_stopping_is_not_asked_back() -> None:
    """It is refused, and until the next change of the ISR the leader would have to wait for it."""
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2, 3))
    brokers = list(broker.image.brokers.values())
    broker.image.put_brokers(replace(each, is_stopping=each.node_id == 3) for each in brokers)
    broker.roles.brokers_changed([broker.partition])
    broker.learn(1, EPOCH, (1, 2))
    committed = broker.partition.when_committed(broker.append(b"a"))
    broker.sync()
    broker.fetched_by(3, 0)
    # The next controller does not know that it is stopping.
    broker.image.put_brokers(brokers)
    broker.roles.brokers_changed([broker.partition])
    broker.fetched_by(3, 0)
    broker.fetched_by(2, 1)
    assert broker.controller.asked == []
    assert committed.result() is None


def test_nothing_is_proposed_while_the_session_is_in_doubt() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    broker.roles.session([broker.partition], suspended=True)
    later_ms = broker.clock.now_ms() + 2 * LAG_MS
    broker.append(b"a")
    broker.partition.expire(later_ms)
    assert broker.controller.asked == []
    broker.roles.session([broker.partition], suspended=False)
    broker.partition.expire(later_ms)
    assert len(broker.controller.asked) == 1


def test_a_leader_that_is_told_of_its_successor_by_the_controller_follows_it() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1,))
    broker.append(b"a")
    broker.fetched_by(2, 1)
    (asked,) = broker.controller.asked
    asked.answer.complete(PartitionNode(PartitionState(2, EPOCH + 1, (2,), (1, 2, 3)), 9))
    assert broker.fetching.leaders == {broker.partition: 2}
    assert broker.partition.leadership is None


def test_a_follower_of_which_the_leader_knows_no_such_epoch_is_refused() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2))
    for epoch, problem in ((EPOCH - 1, Problem.FENCED_LEADER_EPOCH), (EPOCH + 1, Problem.UNKNOWN_LEADER_EPOCH)):
        refused = broker.fetched_by(2, 0, epoch=epoch)
        assert isinstance(refused, Refused) and refused.problem is problem
    broker.learn(2, EPOCH + 1, (1, 2))
    refused = broker.fetched_by(2, 0)
    assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER


def test_an_isr_that_shrank_since_is_told_to_whoever_waited() -> None:
    broker = Broker()
    broker.learn(1, EPOCH, (1, 2), min_isr=2)
    committed = broker.partition.when_committed(broker.append(b"a"))
    broker.sync()
    state = PartitionState(1, EPOCH, (1,), (1, 2, 3), min_insync_replicas=2)
    broker.fetched_by(2, 1)
    assert committed.result() is None
    again = broker.partition.when_committed(1)
    assert again.result() is None
    broker.roles.learn(broker.partition, state, 5)
    refused = broker.partition.when_committed(1).result()
    assert isinstance(refused, Refused) and refused.problem is Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_with_os_what_is_written_counts() -> None:
    broker = Broker(LogSettings(flush_policy="os"))
    broker.learn(1, EPOCH, (1, 2))
    committed = broker.partition.when_committed(broker.append(b"a"))
    assert not committed.done
    broker.fetched_by(2, 1)
    assert committed.result() is None


def test_only_a_follower_in_sync_is_read_and_only_as_the_closest() -> None:
    broker = Broker()
    broker.learn(2, EPOCH, (1, 2))
    assert broker.partition.may_be_read(as_closest=True)
    assert not broker.partition.may_be_read(as_closest=False)
    broker.learn(2, EPOCH, (2,))
    assert not broker.partition.may_be_read(as_closest=True)


def test_a_follower_goes_on_when_what_it_has_is_durable() -> None:
    broker = Broker()
    broker.learn(2, EPOCH, (1, 2))
    broker.partition.on_durable(broker.clock.now_ms())
    assert broker.fetching.went_on == 1
