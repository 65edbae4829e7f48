"""What clients are told of partitions."""

from __future__ import annotations

from penstock.broker.topic_rows import led_by_others
from penstock.cluster.core.image import PartitionImage
from penstock.coordination.paths import NO_LEADER, PartitionState


def test_nobody_leads_what_a_doubted_broker_leads() -> None:
    partitions = [PartitionImage(PartitionState(leader, 5, (1, 2), (1, 2)), 9) for leader in (1, 2, NO_LEADER)]
    assert led_by_others(partitions, set()) == partitions
    shown = led_by_others(partitions, {1, 3})
    assert [each.leader for each in shown] == [NO_LEADER, 2, NO_LEADER]
    assert {(each.leader_epoch, each.isr, each.version) for each in shown} == {(5, (1, 2), 9)}
