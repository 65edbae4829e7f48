"""Settings as Kafka's admin calls show and change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from penstock.cluster.core.image import TopicImage
from penstock.config.fixed import FIXED_SETTINGS, FixedSetting
from penstock.config.replication import ReplicationSettings
from penstock.config.setting import Section, Setting, settings_of

# Those of a broker that can be changed while it runs.
DYNAMIC_BROKER_SETTINGS = {each.name: each for each in settings_of(ReplicationSettings) if each.dynamic}
# With what each is when nobody has set it.
LIST_SETTINGS = {
    "cleanup.policy": "delete",
    "leader.replication.throttled.replicas": "",
    "follower.replication.throttled.replicas": "",
}


class Source(IntEnum):
    """Where a value comes from; Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigType(IntEnum):
    """Kafka's numbers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigRow(NamedTuple):
    name: str
    value: str
    source: Source
    read_only: bool
    kind: ConfigType
    doc: str
    # From the most specific to the least, as Kafka lists them.
    synonyms: tuple[tuple[str, str, Source], ...]


class TopicConfigs:
    """A topic's settings over the node's."""

    def __init__(self, *sections: Section) -> None:
        """Those that can be given per topic."""
        self._sections = sections

    def of(self, topic: TopicImage) -> list[ConfigRow]:
        inherited = [
            _node_row(each, getattr(section, each.field), read_only=False)
            for section in self._sections
            for each in settings_of(type(section))
        ]
        inherited += map(_fixed_row, FIXED_SETTINGS.values())
        return [_overridden(row, topic.config, Source.TOPIC) for row in inherited]


def _overridden(row: ConfigRow, config: Mapping[str, str], source: Source) -> ConfigRow:
    if row.name not in config:
        return row
    text = config[row.name]
    return row._replace(value=text, source=source, synonyms=((row.name, text, source), *row.synonyms))


def _fixed_row(fixed: FixedSetting) -> ConfigRow:
    synonyms = ((fixed.name, fixed.value, Source.DEFAULT),)
    doc = f"Only {fixed.value!r} can be had: {fixed.why}."
    return ConfigRow(fixed.name, fixed.value, Source.DEFAULT, False, _type_of_kind(fixed.kind), doc, synonyms)


def node_rows(sections: Iterable[Section], config: Mapping[str, str]) -> list[ConfigRow]:
    """What this node runs with. What cannot be changed by `config`, while it runs, is read-only here."""
    rows = [
        _node_row(setting, getattr(section, setting.field), read_only=setting.name not in DYNAMIC_BROKER_SETTINGS)
        for section in sections
        for setting in settings_of(type(section))
    ]
    return [_overridden(row, config, Source.DYNAMIC_BROKER) for row in rows]


def _node_row(setting: Setting, value: Any, read_only: bool) -> ConfigRow:
    source = Source.DEFAULT if value == setting.default else Source.STATIC_BROKER
    synonyms: tuple[tuple[str, str, Source], ...] = ((setting.name, setting.show(setting.default), Source.DEFAULT),)
    if source is Source.STATIC_BROKER:
        synonyms = ((setting.name, setting.show(value), source), *synonyms)
    return ConfigRow(setting.name, setting.show(value), source, read_only, _type_of(setting), setting.doc, synonyms)


def _type_of(setting: Setting) -> ConfigType:
    return ConfigType.LIST if setting.name in LIST_SETTINGS else _type_of_kind(setting.kind)


def _type_of_kind(kind: type) -> ConfigType:
    return {
        bool: ConfigType.BOOLEAN,
        int: ConfigType.LONG,
        float: ConfigType.DOUBLE,
        list: ConfigType.LIST,
    }.get(kind, ConfigType.STRING)
