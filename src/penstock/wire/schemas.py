"""Which API has which versions, classes and headers, as kio generated them from Kafka's own schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from penstock.wire.malformed import Malformed
from penstock.wire.shapes import is_flexible

PRODUCE = 0
FETCH = 1
CONTROLLED_SHUTDOWN = 7
API_VERSIONS = 18


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


@cache
def first_flexible_version(api_key: int) -> int:
    """Also right for versions newer than ours: what became flexible stays so."""
    oldest, newest = VERSIONS[api_key]
    for version in range(oldest, newest + 1):
        if is_flexible(request_class(api_key, version)):
            return version
    return newest + 1


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
    if api_key not in VERSIONS:
        raise Malformed("request header", f"unknown API key {api_key}")
    header_version = 2 if version >= first_flexible_version(api_key) else 1
    if has_schema(api_key, version):
        # Only these, so that a client cannot fill the table with versions that do not exist.
        _header_versions[api_key, version] = header_version
    return header_version
