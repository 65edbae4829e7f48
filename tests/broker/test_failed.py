"""A request that failed unexpectedly is answered, whatever its API: a client that hears nothing waits for minutes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

import penstock.broker.apis
from penstock.broker.api import Api
from penstock.broker.failed import failed_response
from penstock.wire.schemas import api_name, response_class
from penstock.wire.versions import encode


def served() -> list[Api]:
    names = (module.name for module in pkgutil.iter_modules(penstock.broker.apis.__path__))
    modules = (importlib.import_module(f"penstock.broker.apis.{name}") for name in names)
    kinds = (kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass))
    found = {api for kind in kinds if isinstance(api := getattr(kind, "api", None), Api)}
    return sorted(found, key=lambda api: api.key)


@pytest.mark.parametrize("api", served(), ids=lambda api: api_name(api.key))
def test_every_api_has_an_answer_in_every_version_or_none_at_all(api: Api) -> None:
    response = failed_response(api.key)
    if response is None:
        return
    for version in range(api.versions[0], api.versions[1] + 1):
        kind: Any = response_class(api.key, version)
        frame = bytes(encode(response, api.key, version, 7, 0))[4:]
        header, header_size = entity_reader(kind.__header_schema__)(frame, 0)
        assert header.correlation_id == 7
        answer, size = entity_reader(kind)(frame, header_size)
        assert header_size + size == len(frame)
        if hasattr(answer, "error_code"):
            assert answer.error_code is ErrorCode.unknown_server_error
