"""The root: every section of a node. Only assembly sees it; a component gets its own section."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from penstock.config.audit import AuditSettings
from penstock.config.consumer_groups import ConsumerGroupSettings
from penstock.config.controller import ControllerSettings
from penstock.config.coordination import CoordinationSettings
from penstock.config.groups import GroupSettings
from penstock.config.log import LogSettings
from penstock.config.logging import LoggingSettings
from penstock.config.network import NetworkSettings
from penstock.config.node import NodeSettings
from penstock.config.replication import ReplicationSettings
from penstock.config.setting import Section, Setting, settings_of
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.config.topics import TopicSettings
from penstock.config.transactions import TransactionSettings
from penstock.config.usage import UsageSettings


@dataclass(frozen=True)
class Settings:
    node: NodeSettings = field(default_factory=NodeSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    topics: TopicSettings = field(default_factory=TopicSettings)
    log: LogSettings = field(default_factory=LogSettings)
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)
    topic_replication: TopicReplicationSettings = field(default_factory=TopicReplicationSettings)
    coordination: CoordinationSettings = field(default_factory=CoordinationSettings)
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    consumer_groups: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)

    def sections(self) -> Iterator[tuple[str, Section]]:
        for item in dataclasses.fields(self):
            yield item.name, getattr(self, item.name)

    def overridden_by(self, values: Mapping[str, str]) -> Self:
        """A copy with the settings that `values` names; the caller has made sure that all names are known."""
        changed = {name: section.overridden_by(values) for name, section in self.sections()}
        return dataclasses.replace(self, **changed)  # type: ignore[arg-type]


def known_settings() -> dict[str, Setting]:
    """Every setting by its name."""
    return {item.name: item for _, section in Settings().sections() for item in settings_of(type(section))}
