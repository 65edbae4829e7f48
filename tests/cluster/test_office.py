"""The office of the controller is begun once, whatever happens to the store while it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest
from tests.cluster.running import Cluster, alive
from tests.disk.power import PowerCutDisk

from penstock.coordination.interface import Create, Remove, Replace
from penstock.coordination.paths import (
    CONFIGS,
    CONTROLLER,
    REGISTRATION,
    TOPIC,
    TOPICS,
    ConfigValues,
    Registration,
    TopicState,
    partition_path,
    registration_path,
    topic_config_path,
    topic_path,
)

HALF = topic_path("half")
OTHER = Registration("elsewhere", 9092, "machine", None, UUID(int=2), clean=True)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


async def begin_anew(cluster: Cluster) -> Callable[[], bool]:
    """Somebody takes the office away; whether there is another controller yet."""
    first, node = cluster.member.controller, await cluster.store.read(CONTROLLER)
    assert first is not None and node is not None
    await cluster.store.commit([Remove(CONTROLLER, node.version)])

    def has_begun() -> bool:
        controller = cluster.member.controller
        return controller is not None and controller is not first and not controller.is_over

    return has_begun


async def sees_another_join(cluster: Cluster) -> list[set[int]]:
    """Who was live, each time that anything was said about it."""
    seen: list[set[int]] = []
    cluster.metadata.when_brokers_change(lambda: seen.append(set(cluster.image.live_epochs)))
    await cluster.store.commit([Create(registration_path(2), REGISTRATION.encode(OTHER), ephemeral=True)])
    await until(lambda: 2 in cluster.image.live_epochs)
    # Nobody is there who would be told that this broker stops.
    await cluster.store.commit([Remove(registration_path(2), 0)])
    await until(lambda: 2 not in cluster.image.live_epochs)
    return seen


@pytest.mark.parametrize(("operation", "path"), [("children", TOPICS), ("commit", HALF)])
def test_a_beginning_that_fails_leaves_nobody_behind_who_decides(operation: str, path: str) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.store.commit([Create(HALF, TOPIC.encode(TopicState(UUID(int=9), 0, 1)))])
        cluster.store.fail(operation, path)
        first = cluster.member.controller
        await until(await begin_anew(cluster))
        # Whoever heard of the one that failed takes nothing of this one for what comes next.
        now = cluster.member.controller
        assert first is not None and now is not None and now.office.epoch == first.office.epoch + 2
        commits = cluster.store.commits
        assert all(1 in live for live in await sees_another_join(cluster))
        # The registration, its admission, and its end.
        assert cluster.store.commits == commits + 3

    alive(PowerCutDisk(), use)


def test_a_session_that_ends_while_the_store_is_read_ends_the_beginning_too() -> None:
    async def use(cluster: Cluster) -> None:
        reading = cluster.store.hold("children", TOPICS)
        has_begun = await begin_anew(cluster)
        await reading.reached.wait()
        cluster.store.lose_session()
        # What was read belongs to a life that is over: the next one reads for itself.
        anew = cluster.store.hold("children", TOPICS)
        reading.answered.set()
        while not anew.reached.is_set():
            assert not has_begun()
            await asyncio.sleep(0.001)
        anew.answered.set()
        await until(has_begun)
        await cluster.made("orders")

    alive(PowerCutDisk(), use)


@pytest.mark.parametrize(
    ("path", "garbage"),
    [
        (topic_path("bad"), b"{oops"),
        (partition_path("bad", 0), b"{oops"),
        (topic_config_path("bad"), b"{oops"),
        (topic_config_path("bad"), CONFIGS.encode(ConfigValues({"retention.ms": "soon"}))),
    ],
)
def test_a_topic_with_garbage_is_left_alone_and_the_others_live_on(path: str, garbage: bytes) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.made("good")
        await cluster.made("bad")
        node = await cluster.store.read(path)
        assert node is not None
        await cluster.store.commit([Replace(path, garbage, node.version)])
        await until(await begin_anew(cluster))
        await cluster.made("new")
        controller = cluster.member.controller
        assert controller is not None and controller.view.topic_id("bad") is None
        await cluster.store.commit([Create(registration_path(2), REGISTRATION.encode(OTHER), ephemeral=True)])
        await until(lambda: controller.view.broker(2).registration is not None)
        # An admission would have had its turn before this.
        await controller.transact(lambda found: [], lambda: None, ())
        assert controller.view.live == {1}
        assert sorted(cluster.names()) == ["bad", "good", "new"]
        assert cluster.partition("bad").leadership is not None
        assert list(cluster.metadata.failures) == ["bad"]
        await cluster.store.commit([Replace(path, node.data, node.version + 1)])
        cluster.node.clock.advance(30_000)
        await until(lambda: not cluster.metadata.failures and controller.view.topic_id("bad") is not None)
        assert cluster.partition("bad").leadership is not None
        await until(lambda: controller.view.live == {1, 2})
        # Nobody is there who would be told that this broker stops.
        await cluster.store.commit([Remove(registration_path(2), 0)])
        await until(lambda: 2 not in cluster.image.live_epochs)

    alive(PowerCutDisk(), use)
