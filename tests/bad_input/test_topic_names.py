"""Names that must become neither a topic nor a file."""

from __future__ import annotations

import pytest
from kio.schema.metadata.v9.response import MetadataResponse
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.broker import Broker

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17

NAMES = {
    "dot": ".",
    "two dots": "..",
    "up and out": "../../etc",
    "slash": "a/b",
    "backslash": "a\\b",
    "NUL": "a\0b",
    "newline": "a\nb",
    "empty": "",
    "space": "a b",
    "250 characters": "x" * 250,
    "30000 characters": "x" * 30_000,
    "not ASCII": "tópico",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_bad_name_is_not_created(broker: Broker, name: str) -> None:
    with broker.connect() as connection:
        (row,) = connection.ask(requests.create_topic(name)).topics
        assert row.error_code == INVALID_TOPIC
        assert name not in topics(connection.ask(requests.metadata()))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_bad_name_is_not_created_by_asking_for_it(broker: Broker, name: str) -> None:
    with broker.connect() as connection:
        (row,) = connection.ask(requests.metadata(name, auto_create=True)).topics
        assert row.error_code == INVALID_TOPIC
        assert name not in topics(connection.ask(requests.metadata()))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_bad_name_cannot_be_written_or_read(broker: Broker, name: str) -> None:
    with broker.connect() as connection:
        written = connection.ask(requests.produce(name, good_batch())).responses[0].partition_responses[0]
        assert written.error_code in {UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC}
        read = connection.ask(requests.fetch(name)).responses[0].partitions[0]
        assert read.error_code in {UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC}


def test_249_characters_are_allowed(broker: Broker) -> None:
    with broker.connect() as connection:
        (row,) = connection.ask(requests.create_topic(broker.name("x" * 249)[-249:])).topics
        assert row.error_code == 0


def topics(answer: MetadataResponse) -> set[str]:
    return {str(row.name) for row in answer.topics}
