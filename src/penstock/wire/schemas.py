"""Which API has which versions, classes and headers, as kio generated them from Kafka's own schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from penstock.wire.malformed import Malformed

PRODUCE: Final = 0
FETCH: Final = 1
CONTROLLED_SHUTDOWN: Final = 7
API_VERSIONS: Final = 18
# Between brokers of one release; no client's business, and far above what Kafka gives out.
PRIVATE: Final = 30_000
# Between an operator's commands and the controller.
OPERATOR: Final = 30_001
# Between those who write exactly once in batches and their coordinator.
QUERY: Final = 30_002
# Between audits and every broker.
AUDIT: Final = 30_003

_OURS = {PRIVATE: "Private", OPERATOR: "Operator", QUERY: "Query", AUDIT: "Audit"}


def _versions() -> Mapping[int, tuple[int, int]]:
    found = {}
    for api_key, name in api_key_map.items():
        versions = [version for version, kinds in schema_name_map[name].items() if EntityType.request in kinds]
        found[api_key] = (min(versions), max(versions))
    return found


# API key → oldest and newest version that there is a schema for.
VERSIONS: Mapping[int, tuple[int, int]] = _versions()


def api_name(api_key: int) -> str:
    """Kafka's name for logs and metrics, such as `OffsetForLeaderEpoch`."""
    if api_key in _OURS:
        return _OURS[api_key]
    name = api_key_map.get(api_key)
    return name.title().replace("_", "") if name is not None else f"API {api_key}"


def newest_version(api_key: int) -> int:
    return VERSIONS[api_key][1]


def has_schema(api_key: int, version: int) -> bool:
    oldest, newest = VERSIONS.get(api_key, (0, -1))
    return oldest <= version <= newest


@cache
def request_class(api_key: int, version: int) -> type:
    return load_request_schema(api_key, version)


@cache
def response_class(api_key: int, version: int) -> type:
    return load_response_schema(api_key, version)


# Of the APIs that are older than flexible versions. kio knows it too, but loads a class per version to tell, and a
# node's first answers would wait for that.
_FIRST_FLEXIBLE = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5,
    16: 3, 17: 2, 18: 3, 19: 5, 20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1,
    28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 38: 2, 39: 2,
    40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 47: 1, 48: 1, 49: 1, 53: 1, 54: 1, 56: 2
}  # fmt: skip


def first_flexible_version(api_key: int) -> int:
    """Also right for versions newer than ours: what became flexible stays so."""
    return _FIRST_FLEXIBLE.get(api_key, 0)


@cache
def response_header_version(api_key: int, version: int) -> int:
    """An ApiVersions answer has no tagged fields in its header: the client cannot know yet what we speak (KIP-511)."""
    return 1 if api_key != API_VERSIONS and version >= first_flexible_version(api_key) else 0


_header_versions: dict[tuple[int, int], int] = {}


def request_header_version(api_key: int, version: int) -> int:
    known = _header_versions.get((api_key, version))
    if known is not None:
        return known
    if api_key == CONTROLLED_SHUTDOWN:
        return 0 if version == 0 else 1
    if api_key in _OURS:
        return 1
    if api_key not in VERSIONS:
        raise Malformed("request header", f"unknown API key {api_key}")
    header_version = 2 if version >= first_flexible_version(api_key) else 1
    if has_schema(api_key, version):
        # Only these, so that a client cannot fill the table with versions that do not exist.
        _header_versions[api_key, version] = header_version
    return header_version
