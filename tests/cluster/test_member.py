"""A broker and its registration: what becomes of it when that is not its own any more."""

from __future__ import annotations

import asyncio
from uuid import UUID

from tests.cluster.running import Cluster, alive
from tests.disk.power import PowerCutDisk

from penstock.coordination.interface import Change, Create, Remove
from penstock.coordination.paths import CONTROLLER, REGISTRATION, Registration, registration_path
from penstock.coordination.registration import IdTaken

PATH = registration_path(1)
REPLACEMENT = Registration("elsewhere", 9092, "machine", None, UUID(int=2), clean=True)


async def replaced(cluster: Cluster, *registration: Registration) -> None:
    node = await cluster.store.read(PATH)
    assert node is not None
    changes: list[Change] = [Remove(PATH, node.version)]
    made = [Create(PATH, REGISTRATION.encode(each), ephemeral=True) for each in registration]
    await cluster.store.commit([*changes, *made])


def leads(cluster: Cluster) -> bool:
    return cluster.partition("orders").leadership is not None


def test_a_registration_that_is_gone_while_the_session_lives_is_made_anew() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.made("orders")
        before, leader_epoch = cluster.member.broker_epoch, cluster.partition("orders").leader_epoch
        await replaced(cluster)
        while not leads(cluster) or cluster.image.live_epochs.get(1, before) == before:
            await asyncio.sleep(0.001)
        assert cluster.image.live_epochs == {1: cluster.member.broker_epoch}
        assert cluster.partition("orders").leader_epoch > leader_epoch
        # Who finds it dead names this epoch, so the office has to be known by it too.
        office = await cluster.store.read(CONTROLLER)
        assert office is not None
        assert str(cluster.member.broker_epoch).encode() in office.data

    alive(PowerCutDisk(), use)


def test_a_broker_whose_id_another_one_has_is_told_to_end_and_leads_nothing() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.made("orders")
        await replaced(cluster, REPLACEMENT)
        error = await cluster.member.expelled.wait()
        assert isinstance(error, IdTaken)
        assert "broker id 1 is in use by the broker at elsewhere:9092" in str(error)
        assert not leads(cluster)
        assert cluster.member.controller is None or cluster.member.controller.is_over

    alive(PowerCutDisk(), use)
