"""What settings belong to: a topic or this broker, as Kafka's admin calls name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from penstock.broker.config_rows import DYNAMIC_BROKER_SETTINGS, ConfigRow, TopicConfigs, node_rows
from penstock.broker.error_codes import NONE, code_of
from penstock.cluster.core.image import Image, TopicImage
from penstock.cluster.operations import Operations
from penstock.cluster.topics import ConfigChange, Topics
from penstock.config.setting import Section
from penstock.errors import PenstockError, Problem, Refused


class ResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


# Its replicas leave the broker, and no new ones come.
DRAINING = "broker.draining"
# Digits. Python makes no number of thousands of them.
_LONGEST_ID = 10


class Named(Protocol):
    """A resource as both alter calls name it."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


Resource = TypeVar("Resource", bound=Named)
Row = TypeVar("Row")


class ConfigResources:
    def __init__(
        self,
        image: Image,
        topics: Topics,
        operations: Operations,
        topic_configs: TopicConfigs,
        sections: Sequence[Section],
    ) -> None:
        self._image = image
        self._topics = topics
        self._operations = operations
        self._topic_configs = topic_configs
        self._node_id = image.node_id
        self._sections = sections

    def describe(self, resource_type: int, name: str) -> list[ConfigRow] | Refused:
        if resource_type == ResourceType.TOPIC:
            topic = self._topic(name)
            return topic if isinstance(topic, Refused) else self._topic_configs.of(topic)
        if resource_type == ResourceType.BROKER:
            if name not in ("", str(self._node_id)):
                return Refused(Problem.INVALID_REQUEST, f"ask broker {name!r} itself, this is broker {self._node_id}")
            own = self._image.brokers.get(self._node_id)
            return node_rows(self._sections, {} if own is None else own.config)
        return _unknown(resource_type)

    async def alter(
        self,
        resources: Iterable[Resource],
        change_of: Callable[[Resource], ConfigChange],
        validate_only: bool,
        row: Callable[..., Row],
    ) -> tuple[Row, ...]:
        """One after the other; `row` makes the outcome of each from the fields that both alter calls have."""
        rows = []
        for resource in resources:
            refused = await self._alter(resource, change_of(resource), validate_only)
            rows.append(
                row(
                    error_code=NONE if refused is None else code_of(refused),
                    error_message=None if refused is None else refused.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return tuple(rows)

    async def _alter(self, resource: Named, change: ConfigChange, validate_only: bool) -> Refused | None:
        if resource.resource_type == ResourceType.TOPIC:
            result = await self._topics.configure(resource.resource_name, change, validate_only)
            return result if isinstance(result, Refused) else None
        if resource.resource_type == ResourceType.BROKER:
            return await self._alter_broker(resource.resource_name, change, validate_only)
        return _unknown(resource.resource_type)

    async def _alter_broker(self, name: str, change: ConfigChange, validate_only: bool) -> Refused | None:
        """Whether it is being drained is the cluster's to know; most else is given to a broker at its start."""
        if not (name.isascii() and name.isdigit()):
            return Refused(Problem.INVALID_REQUEST, "settings of all brokers together cannot be changed")
        if len(name) > _LONGEST_ID:
            return Refused(Problem.INVALID_REQUEST, "no broker has a number that long")
        state = self._operations.broker_state(int(name))
        if isinstance(state, Refused):
            return state
        config = change({**state.config, DRAINING: str(state.draining).lower()})
        if isinstance(config, Refused):
            return config
        settings = {name: text for name, text in config.items() if name != DRAINING}
        wanted = config.get(DRAINING, "false").lower()
        if (refused := _problem(settings, wanted)) is not None or validate_only:
            return refused
        if settings != state.config:
            refused = await self._operations.configure(int(name), settings).wait()
        if refused is not None or (wanted == "true") == state.draining:
            return refused
        return await self._operations.drain(int(name), wanted == "true")

    def _topic(self, name: str) -> TopicImage | Refused:
        topic = self._image.topic(name)
        return topic or Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")


def _problem(settings: Mapping[str, str], draining: str) -> Refused | None:
    if fixed := sorted(settings.keys() - DYNAMIC_BROKER_SETTINGS.keys()):
        text = (
            f"{', '.join(fixed)} cannot be set here: a broker's settings are given at its start, by its file or flags. "
            f"While it runs there are {DRAINING}, {', '.join(DYNAMIC_BROKER_SETTINGS)}"
        )
        return Refused(Problem.INVALID_REQUEST, text)
    if draining not in ("true", "false"):
        return Refused(Problem.INVALID_REQUEST, f"{DRAINING} must be true or false")
    try:
        for name, text in settings.items():
            DYNAMIC_BROKER_SETTINGS[name].parse(text)
    except PenstockError as error:
        return Refused.by(error)
    return None


def _unknown(resource_type: int) -> Refused:
    return Refused(Problem.INVALID_REQUEST, f"resources of type {resource_type} have no settings here")
