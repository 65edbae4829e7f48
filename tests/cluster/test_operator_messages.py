"""What an operator's request may look like, and what is none."""

from __future__ import annotations

import pytest

from penstock.cluster.core.operator_messages import AskPlan, Execute, decode_request
from penstock.cluster.core.plan import Move


def test_requests_are_json_with_what_is_asked() -> None:
    assert decode_request(b'{"ask": "plan", "kind": "drain", "node_id": 3}') == AskPlan("drain", 3)
    move = b'{"topic": "orders", "partition": 0, "before": [1], "replicas": [2], "size_bytes": 7}'
    assert decode_request(b'{"ask": "execute", "moves": [%s]}' % move) == Execute((Move("orders", 0, (1,), (2,), 7),))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"ask": "nothing"}',
        b'{"ask": "execute", "moves": [{}]}',
        b'{"ask": "plan", "kind": "drain", "node_id": 1e400}',
        b'{"ask": "throttle", "throttled_rate": -1}',
        b'{"ask": "throttle", "throttled_rate": 9223372036854775808}',
        b'{"ask": "status", "more": ' + b"[" * 100_000,
    ],
)
def test_all_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_request(data)
