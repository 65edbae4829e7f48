"""The logs of this broker on its disk: opened, closed, deleted. What blocks runs in a pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from penstock.clock import Clock
from penstock.cluster.core.image import TopicImage
from penstock.config.log import LogSettings
from penstock.disk.interface import Space
from penstock.errors import PenstockError, Problem
from penstock.storage.directories import PartitionDirectories, PartitionDirectory
from penstock.storage.journal import Journal
from penstock.storage.log import Log
from penstock.units import HOUR_MS, MINUTE_MS

logger = logging.getLogger(__name__)

# For somebody who reads the log to find that it should not have gone.
KEPT_MS = HOUR_MS


class LocalLogs:
    def __init__(
        self,
        directories: PartitionDirectories,
        defaults: LogSettings,
        journal: Journal,
        pool: ThreadPoolExecutor,
        upkeep: ThreadPoolExecutor,
        clock: Clock,
    ) -> None:
        """`upkeep` has one thread, so that what is begun in it is done in order."""
        self._directories = directories
        self._defaults = defaults
        self._journal = journal
        self._pool = pool
        self.upkeep = upkeep
        self._clock = clock
        self._will_sweep = False
        # Topics of which an earlier run may have acknowledged what no disk had, whatever their policy is now.
        self.left_unsynced = frozenset(directories.unsynced_topics())

    @property
    def path(self) -> str:
        return self._directories.path

    def space(self) -> Space:
        return self._directories.space()

    def settings_of(self, config: Mapping[str, str]) -> LogSettings:
        return self._defaults.overridden_by(config)

    async def open(self, topic: TopicImage, indexes: Sequence[int], settings: LogSettings) -> list[Log]:
        """All or none. Raises PenstockError."""
        if not indexes:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._open, topic, indexes, settings)

    def _open(self, topic: TopicImage, indexes: Sequence[int], settings: LogSettings) -> list[Log]:
        paths = self._claim(topic, indexes, settings)
        logs: list[Log] = []
        try:
            for index, path in zip(indexes, paths, strict=True):
                share = self._journal.share_for(topic.id, index)
                log = Log.open(self._directories.disk, path, settings, now_ms=self._clock.now_ms(), share=share)
                logs.append(log)
                if log.recovery.noteworthy:
                    what = str(log.recovery)
                    logger.warning("log.recovered", extra={"topic": topic.name, "partition": index, "what": what})
        except PenstockError:
            for log in logs:
                log.abandon()
            raise
        return logs

    async def change(self, topic: TopicImage, settings: LogSettings) -> None:
        """Before these settings count for what is open of it. Raises PenstockError."""
        if settings.flush_policy == "os":
            await asyncio.get_running_loop().run_in_executor(self._pool, self._claim, topic, (), settings)

    def _claim(self, topic: TopicImage, indexes: Sequence[int], settings: LogSettings) -> list[str]:
        is_os = settings.flush_policy == "os"
        try:
            return self._directories.claim(topic.name, topic.id, indexes, acknowledges_unsynced=is_os)
        except OSError as error:
            text = f"the directories of {topic.name} cannot be made: {error}"
            raise PenstockError(Problem.STORAGE_FAILED, text) from error

    async def remove(self, topic: str, indexes: Collection[int] | None = None, *, keep: bool = False) -> None:
        """Of a topic, or of some of its partitions; their logs are abandoned. Set aside at least, or at the next start.
        `keep`: the whole topic is set aside, to be deleted later.

        Behind all that retention and compaction have begun there: they know files by their names, which what is made
        anew has too.
        """
        remove: Callable[[], object]
        if keep:
            remove = partial(self._set_aside, topic)
        elif indexes is None:
            remove = partial(self._directories.remove_topic, topic)
        else:
            remove = partial(self._directories.remove_partitions, topic, indexes)
        try:
            await asyncio.get_running_loop().run_in_executor(self.upkeep, remove)
        except OSError as error:
            logger.warning("topic.files.kept", extra={"topic": topic, "why": str(error), "do": "see to the disk"})
        self.sweep_soon()

    def sweep_soon(self) -> None:
        """What was set aside for long enough goes. Nobody waits for it: whoever follows the metadata hears of other

        leaders meanwhile. It takes one thread of the pool at most, and none of the upkeep's.
        """
        if not self._will_sweep:
            self._will_sweep = True
            asyncio.get_running_loop().run_in_executor(self._pool, self._sweep_now)

    def _sweep_now(self) -> None:
        # What is removed from here on needs another one.
        self._will_sweep = False
        self.sweep()

    def _set_aside(self, topic: str) -> None:
        where = self._directories.set_aside(topic, self._clock.now_ms() + KEPT_MS)
        if where is not None:
            self._tell_kept(topic, where, "the cluster does not have it any more")

    def _tell_kept(self, topic: str, where: str, why: str) -> None:
        extra = {"topic": topic, "where": where, "minutes": KEPT_MS // MINUTE_MS}
        logger.warning("topic.set.aside", extra={**extra, "why": why})

    def sweep(self) -> None:
        """In a pool: what was set aside for long enough."""
        try:
            self._directories.sweep(self._clock.now_ms())
        except OSError as error:
            logger.warning("topic.files.kept", extra={"why": str(error), "do": "see to the disk"})

    async def remove_strangers(self, known: Mapping[str, Set[int]]) -> None:
        """At start: what was left behind by topics that were deleted, and by partitions that were moved away, while

        this node was down. `known`: the partitions that are here, by topic. Before the journal is used again.
        """
        await asyncio.get_running_loop().run_in_executor(self._pool, self._remove_strangers, known)

    def _remove_strangers(self, known: Mapping[str, Set[int]]) -> None:
        found: dict[str, set[int]] = {}
        for directory in self._directories.existing():
            found.setdefault(directory.topic, set()).add(directory.partition)
            if directory.partition not in known.get(directory.topic, ()):
                self._put_back(directory)
        for topic, partitions in found.items():
            if topic not in known:
                self._set_aside(topic)
            elif strangers := partitions - known[topic]:
                where = self._directories.set_partitions_aside(topic, strangers, self._clock.now_ms() + KEPT_MS)
                self._tell_kept(topic, where, f"partitions {sorted(strangers)} have their replicas elsewhere")
        self._directories.sweep(self._clock.now_ms())

    def _put_back(self, directory: PartitionDirectory) -> None:
        """What only the journal has of it: that is about to be wiped, and whoever finds that the topic should not have

        gone wants all of it.
        """
        share = self._journal.share_for(directory.topic_id, directory.partition)
        if not share.journaled:
            return
        disk, now_ms = self._directories.disk, self._clock.now_ms()
        try:
            Log.open(disk, directory.path, self._defaults, now_ms=now_ms, share=share).close()
        except PenstockError as error:
            where = {"topic": directory.topic, "partition": directory.partition}
            logger.warning("log.not.put.back", extra={**where, "why": str(error)})
