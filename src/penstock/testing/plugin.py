"""The pytest fixture `penstock_node`: a node for one test. Registered as a plugin, so it is there once installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.node import TestNode


@pytest.fixture
def penstock_node() -> Iterator[TestNode]:
    # Here, because every pytest run would wait for it too.
    from penstock.testing.node import node

    with node() as test_node:
        yield test_node
