"""A broker registers anew: first everything is taken from it that its new life may not keep, then it is admitted."""

from __future__ import annotations

from uuid import UUID

from msgspec.structs import replace

from penstock.cluster.core.draft import Draft
from penstock.cluster.core.election import settled, without
from penstock.cluster.core.view import PartitionKey
from penstock.coordination.paths import NO_LEADER, BrokerState


class Admission:
    """Of one broker epoch, in as many transactions as it takes; the broker counts from the last one on.

    A controller that dies in between leaves a broker that is not admitted: the next one begins again. A broker must not
    lead by what it read of partitions before it knew that it is admitted: that was said of an earlier life.

    While something is left out of the view, nobody is admitted: what the new life may not keep there could not be taken
    from it, and nobody would ever look again.
    """

    def __init__(self, node_id: int, broker_epoch: int) -> None:
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.is_drafted = False
        # None before it began. No partition is added later: until it is admitted the broker joins no ISR.
        self._left: list[PartitionKey] | None = None
        self._unsynced_topics: frozenset[UUID | None] = frozenset()

    def advance(self, draft: Draft) -> bool:
        """False if the draft has no room for all of it, or the view does not tell all that it takes."""
        if not draft.view.is_complete:
            return False
        if self._left is None:
            self._left = draft.view.partitions_of(self.node_id)
            # Taken from the end: those that it led come first.
            self._left.reverse()
            registration = draft.view.broker(self.node_id).registration
            assert registration is not None
            self._unsynced_topics = frozenset(registration.unsynced_topics)
        while self._left:
            if draft.is_full:
                return False
            self._take_away(draft, self._left.pop())
        registration = draft.view.broker(self.node_id).registration
        assert registration is not None
        before = draft.broker_state(self.node_id) or BrokerState(registration.directory_id, self.broker_epoch)
        state = replace(before, directory_id=registration.directory_id, admitted_epoch=self.broker_epoch)
        draft.put_broker(self.node_id, state, live=True)
        self.is_drafted = True
        return True

    def roll_back(self) -> None:
        self._left, self.is_drafted = None, False

    def _take_away(self, draft: Draft, key: PartitionKey) -> None:
        node, broker = draft.partition(key), draft.view.broker(self.node_id)
        if node is None or broker.registration is None:
            return
        state, settings = node.state, draft.view.settings(key.topic)
        # A wiped disk, or a broker of which nothing is known: it has nothing.
        is_empty = broker.state is None or broker.state.directory_id != broker.registration.directory_id
        # Under the policy that its last run knew, which may be another than the one of now.
        was_unsynced = broker.registration.unsynced or draft.view.topic_id(key.topic) in self._unsynced_topics
        if is_empty:
            state = without(state, self.node_id, keeps_doubtful=False)
        elif not broker.registration.clean and (settings.acknowledges_unsynced or was_unsynced):
            state = without(state, self.node_id, keeps_doubtful=True)
        # Whoever led was an earlier life: it may have lost records that others have under the same epoch.
        new_life = state.leader == self.node_id
        after = settled(state, draft.electorate.admitting(self.node_id), settings, new_life=new_life)
        if is_empty and after.leader == self.node_id:
            # By an unclean election: rather any other.
            other = settled(state, draft.electorate, settings, new_life=new_life)
            after = after if other.leader == NO_LEADER else other
        draft.put_partition(key, after)
