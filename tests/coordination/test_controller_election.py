"""One controller at a time, and nothing that an earlier one sends is carried out."""

from __future__ import annotations

import asyncio

import pytest
from tests.coordination.stores import Life, until, with_two

from penstock.config.coordination import CoordinationSettings
from penstock.coordination.controller_election import ControllerElection, Incumbent, Office
from penstock.coordination.interface import Check, Create, Store
from penstock.coordination.paths import CONTROLLER, CONTROLLER_EPOCH
from penstock.coordination.zookeeper import ZooKeeperStore
from penstock.errors import PenstockError, Problem


def test_the_office_is_taken_kept_and_left(life: Life) -> None:
    async def use(store: Store) -> None:
        election = ControllerElection(store, broker=1)
        assert await election.incumbent() is None
        changes: list[Incumbent | None] = []
        looks: list[asyncio.Future[Incumbent | None]] = []
        election.watch(lambda: looks.append(asyncio.ensure_future(election.incumbent())))
        office = await election.attempt(broker_epoch=5)
        assert office is not None
        incumbent = await election.incumbent()
        assert incumbent is not None
        assert incumbent[:2] == (1, 5)
        await store.commit([Check(CONTROLLER_EPOCH, office.version), Create(f"/work-{office.epoch}", b"")])
        await election.resign(office)
        await election.resign(office)
        assert await election.incumbent() is None
        changes = [await look for look in looks]
        assert changes[0] == incumbent
        assert changes[-1] is None
        offices.append(office)

    offices: list[Office] = []
    for _ in range(3):
        life(use)
    assert [office.epoch for office in offices] == [1, 2, 3]
    assert [office.version for office in offices] == [0, 1, 2]


@pytest.mark.parametrize("broker_epoch", [5, 6])
def test_who_has_the_office_takes_it_anew(life: Life, broker_epoch: int) -> None:
    """Registered anew in the same session, or after a beginning that failed: nobody takes one term for the other."""

    async def use(store: Store) -> None:
        election = ControllerElection(store, broker=1)
        before = await election.attempt(broker_epoch=5)
        earlier = await election.incumbent()
        after = await election.attempt(broker_epoch)
        assert before is not None and after is not None
        assert after.epoch == before.epoch + 1
        incumbent = await election.incumbent()
        assert incumbent is not None and incumbent[:2] == (1, broker_epoch)
        assert earlier is not None and incumbent.created > earlier.created
        with pytest.raises(PenstockError) as refused:
            await store.commit([Check(CONTROLLER_EPOCH, before.version), Create("/late", b"")])
        assert refused.value.problem is Problem.STORE_CONFLICT

    life(use)


def test_the_office_ends_with_the_session(life: Life) -> None:
    async def use(store: Store) -> None:
        await store.sync()
        office = await ControllerElection(store, broker=1).attempt(broker_epoch=5)
        assert office is not None
        epochs.append(office.epoch)

    epochs: list[int] = []
    life(use)
    life(use)
    assert epochs == [1, 2]


def test_of_two_one_wins_and_the_other_follows(chroot_settings: CoordinationSettings) -> None:
    async def use(first: ZooKeeperStore, second: ZooKeeperStore) -> None:
        elections = [ControllerElection(first, 1), ControllerElection(second, 2)]
        offices = await asyncio.gather(*(election.attempt(7) for election in elections))
        winner = 0 if offices[0] is not None else 1
        loser, store = elections[1 - winner], (first, second)[winner]
        assert offices[1 - winner] is None
        found = await loser.incumbent()
        assert found is not None and found.broker == winner + 1
        looked = asyncio.Event()
        loser.watch(looked.set)
        await loser.incumbent()
        await store.close()
        async with asyncio.timeout(10):
            await looked.wait()
        office = await loser.attempt(8)
        assert office is not None and office.epoch == 2

    with_two(chroot_settings, use)


def test_a_dead_controller_is_replaced_on_evidence_and_fenced(chroot_settings: CoordinationSettings) -> None:
    async def use(first: ZooKeeperStore, second: ZooKeeperStore) -> None:
        old, new = ControllerElection(first, 1), ControllerElection(second, 2)
        old_office = await old.attempt(7)
        assert old_office is not None
        assert await new.attempt(8) is None
        found = await new.incumbent()
        assert found is not None
        # Evidence against an earlier term says nothing of this one.
        earlier = found._replace(created=found.created - 1)
        assert await new.attempt(8, instead_of=earlier) is None
        new_office = await new.attempt(8, instead_of=found)
        assert new_office == Office(old_office.epoch + 1, old_office.version + 1)
        with pytest.raises(PenstockError) as caught:
            await first.commit([Check(CONTROLLER_EPOCH, old_office.version), Create("/work", b"")])
        assert caught.value.problem is Problem.STORE_CONFLICT
        # Neither resigning nor trying again brings the old one back.
        await old.resign(old_office)
        assert await old.attempt(7) is None
        assert await old.attempt(7, instead_of=found) is None
        assert (await new.incumbent() or found).broker == 2
        await first.close()
        assert await new.attempt(8) == Office(new_office.epoch + 1, new_office.version + 1)

    with_two(chroot_settings, use)


def test_many_attempts_at_once_leave_one_controller_per_epoch(chroot_settings: CoordinationSettings) -> None:
    async def use(first: ZooKeeperStore, second: ZooKeeperStore) -> None:
        seen: list[Office] = []

        async def compete(election: ControllerElection, broker_epoch: int) -> None:
            for _ in range(15):
                found = await election.incumbent()
                office = await election.attempt(broker_epoch, instead_of=found)
                if office is not None:
                    seen.append(office)

        await asyncio.gather(compete(ControllerElection(first, 1), 5), compete(ControllerElection(second, 2), 6))
        epochs = [office.epoch for office in seen]
        assert len(epochs) == len(set(epochs))
        assert all(office.version == office.epoch - 1 for office in seen)

    with_two(chroot_settings, use)


@pytest.mark.parametrize("path", [CONTROLLER, CONTROLLER_EPOCH])
def test_garbage_is_refused_with_its_path(life: Life, path: str) -> None:
    async def use(store: Store) -> None:
        await store.commit([Create(path, b"garbage")])
        with pytest.raises(PenstockError, match=path) as caught:
            await ControllerElection(store, 1).attempt(5)
        assert caught.value.problem is Problem.STORAGE_FAILED
        assert await store.children("/") == [path[1:]]

    life(use)


def test_what_a_lost_answer_had_won_is_won_anew(life: Life) -> None:
    async def use(store: Store) -> None:
        election = ControllerElection(store, 1)
        attempt = asyncio.ensure_future(election.attempt(5))
        seen: list[None] = []
        election.watch(lambda: seen.append(None))
        await until(lambda: bool(seen))
        attempt.cancel()
        office = await election.attempt(5)
        assert office == Office(2, 1)

    life(use)
