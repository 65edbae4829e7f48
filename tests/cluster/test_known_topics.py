"""What a broker knows, whatever came twice, late, or was read from the store in between."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.core.delta import Delta, PartitionRow, RemovedRow, TopicRow
from penstock.cluster.core.known_topics import KnownTopics
from penstock.coordination.paths import PartitionState

NAMES = ("orders", "invoices")


class Truth:
    """The nodes of a store, and the delta that each change of them leads to."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicRow] = {}
        self.partitions: dict[tuple[str, int], PartitionRow] = {}
        self._generation = 0

    def change(self, what: str, name: str) -> Delta:
        topic = self.topics.get(name)
        if topic is None:
            self._generation += 1
            topic = self.topics[name] = TopicRow(name, UUID(int=self._generation), self._generation, 2, {}, 0)
            return self._delta(topics=(topic,), partitions=tuple(self._new(topic, number) for number in range(2)))
        match what:
            case "remove":
                del self.topics[name]
                self.partitions = {key: row for key, row in self.partitions.items() if key[0] != name}
                return self._delta(removed=(RemovedRow(name, topic.topic_id),))
            case "grow":
                count = topic.partition_count + 1
                grown = TopicRow(name, topic.topic_id, topic.generation, count, topic.config, topic.config_version)
                self.topics[name] = grown
                return self._delta(topics=(grown,), partitions=(self._new(grown, count - 1),))
            case "configure":
                version = topic.config_version + 1
                config = {"retention.ms": str(version)}
                self.topics[name] = TopicRow(
                    name, topic.topic_id, topic.generation, topic.partition_count, config, version
                )
                return self._delta(topics=(self.topics[name],))
        before = self.partitions[name, 0]
        state = PartitionState(2, before.state.leader_epoch + 1, (2,), (1, 2))
        self.partitions[name, 0] = PartitionRow(name, topic.topic_id, 0, state, before.version + 1)
        return self._delta(partitions=(self.partitions[name, 0],))

    def _new(self, topic: TopicRow, number: int) -> PartitionRow:
        row = PartitionRow(topic.name, topic.topic_id, number, PartitionState(1, 0, (1,), (1, 2)), 0)
        self.partitions[topic.name, number] = row
        return row

    def _delta(self, **rows: object) -> Delta:
        return Delta(1, 1, 0, **rows)  # type: ignore[arg-type]


def shown(known: KnownTopics) -> dict[str, tuple[TopicRow, list[tuple[PartitionState, int]]]]:
    return {topic.row.name: (topic.row, [(each.state, each.version) for each in topic.partitions]) for topic in known}


changes = st.lists(
    st.tuples(st.sampled_from(["remove", "grow", "configure", "lead"]), st.sampled_from(NAMES)), min_size=1, max_size=12
)


@given(changes, st.data())
def test_whatever_was_read_and_sent_before_the_last_counts(wanted: list[tuple[str, str]], data: st.DataObject) -> None:
    truth, known = Truth(), KnownTopics()
    deltas = [truth.change(*each) for each in wanted]
    truth_then = Truth()
    read_after = data.draw(st.integers(0, len(deltas)))
    for each in wanted[:read_after]:
        truth_then.change(*each)
    # Some of what the read has already comes once more behind it, and all that it has not.
    begun_at = data.draw(st.integers(0, read_after))
    known.replace_all(truth_then.topics.values(), truth_then.partitions.values())
    for delta in deltas[begun_at:]:
        known.apply(delta)
        if data.draw(st.booleans()):
            known.apply(delta)
    last = {
        name: (
            row,
            [(truth.partitions[name, n].state, truth.partitions[name, n].version) for n in range(row.partition_count)],
        )
        for name, row in truth.topics.items()
    }
    assert shown(known) == last


@given(changes)
def test_several_deltas_in_one_say_the_same(wanted: list[tuple[str, str]]) -> None:
    """Of a topic that is removed and made anew meanwhile too."""
    truth = Truth()
    deltas = [truth.change(*each) for each in wanted]
    one_by_one, together = KnownTopics(), KnownTopics()
    merged = deltas[0]
    for delta in deltas:
        one_by_one.apply(delta)
        merged = merged.then(delta)
    together.apply(merged)
    assert shown(together) == shown(one_by_one)
