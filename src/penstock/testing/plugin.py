"""The pytest fixture `penstock_node`: a node for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing.node import TestNode, node


@pytest.fixture
def penstock_node() -> Iterator[TestNode]:
    with node() as test_node:
        yield test_node
