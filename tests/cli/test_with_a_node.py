"""The commands against a real node."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner, Result

from penstock.cli.main import app
from penstock.testing import TestNode, node

numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[TestNode]:
    with node() as started:
        yield started


class Shell:
    def __init__(self, bootstrap: str) -> None:
        self._environment = {"PENSTOCK_BOOTSTRAP": bootstrap}

    def run(self, *arguments: str, text: str = "") -> Result:
        return CliRunner().invoke(app, list(arguments), input=text, env=self._environment)

    def json(self, *arguments: str, text: str = "") -> Any:
        result = self.run(*arguments, "--output", "json", text=text)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def consume(self, *arguments: str) -> list[dict[str, Any]]:
        result = self.run("consume", *arguments, "--output", "json")
        assert result.exit_code == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def offsets(self, group: str) -> dict[tuple[str, int], tuple[int | None, int | None]]:
        rows = self.json("group", "describe", group)["offsets"]
        return {(row["topic"], row["partition"]): (row["committed_offset"], row["lag"]) for row in rows}


@pytest.fixture
def shell(server: TestNode) -> Shell:
    return Shell(server.bootstrap)


@pytest.fixture
def topic(shell: Shell) -> str:
    name = f"topic-{next(numbers)}"
    shell.json("topic", "create", name, "--partitions", "2")
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(numbers)}"


def test_a_topic_from_creation_to_deletion(shell: Shell) -> None:
    created = shell.json("topic", "create", "orders", "--partitions", "3", "--set", "retention.ms=86400000")
    assert created == {"topic": "orders", "created": True, "partitions": 3}
    assert {"topic": "orders", "partitions": 3} in shell.json("topic", "list")

    about = shell.json("topic", "describe", "orders")
    assert about["changed_settings"] == {"retention.ms": "86400000"}
    assert [(row["partition"], row["start_offset"], row["end_offset"]) for row in about["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]

    rows = shell.json("topic", "alter", "orders", "--set", "segment.ms=5000", "--unset", "retention.ms")
    assert rows == [{"name": "segment.ms", "value": "5000"}, {"name": "retention.ms", "value": "1209600000"}]
    assert shell.json("topic", "describe", "orders")["changed_settings"] == {"segment.ms": "5000"}

    shell.json("topic", "add-partitions", "orders", "--total", "4")
    assert len(shell.json("topic", "describe", "orders")["partitions"]) == 4

    shell.json("topic", "delete", "orders", "--yes")
    assert "orders" not in {row["topic"] for row in shell.json("topic", "list")}


def test_refusals_are_told_with_what_to_do(shell: Shell, topic: str) -> None:
    again = shell.run("topic", "create", topic)
    assert (again.exit_code, "TOPIC_ALREADY_EXISTS" in again.stderr, "topic alter" in again.stderr) == (1, True, True)
    assert shell.json("topic", "create", topic, "--if-not-exists")["created"] is False

    unknown = shell.run("topic", "describe", "no-such-topic")
    assert (unknown.exit_code, "penstock topic list" in unknown.stderr) == (1, True)
    wrong = shell.run("topic", "alter", topic, "--set", "retention.ms=soon")
    assert (wrong.exit_code, "retention.ms" in wrong.stderr) == (1, True)
    assert shell.run("topic", "create", "a/b").exit_code == 1
    assert shell.run("topic", "add-partitions", topic, "--total", "1").exit_code == 1
    assert shell.run("consume", "no-such-topic", "-e").exit_code == 1
    assert shell.run("group", "delete", "no-such-group").exit_code == 1


def test_tables_for_people(shell: Shell, topic: str) -> None:
    listed = shell.run("topic", "list").stdout.splitlines()
    assert listed[0].split() == ["TOPIC", "PARTITIONS"]
    assert [topic, "2"] in [line.split() for line in listed]
    described = shell.run("topic", "describe", topic).stdout
    assert "PARTITION  LEADER  REPLICAS  IN SYNC  START OFFSET  END OFFSET" in described


def test_json_records_come_back_as_they_were_sent(shell: Shell, topic: str) -> None:
    sent: list[dict[str, Any]] = [
        {"key": "k", "value": "v", "headers": [["h", "1"], ["h", None]], "partition": 1, "timestamp": 1700000000000},
        {"key": None, "value": None, "headers": [], "partition": 1, "timestamp": 1700000000001},
        {"key": {"base64": "/w=="}, "value": "ü", "headers": [], "partition": 1, "timestamp": 1700000000002},
    ]
    text = "".join(json.dumps(record) + "\n" for record in sent)
    summary = shell.json("produce", topic, "--input", "json", text=text)
    assert summary["records"] == 3
    received = shell.consume(topic, "--from", "beginning", "--exit-at-end")
    assert received == [{"topic": topic, "offset": offset, **record} for offset, record in enumerate(sent)]


def test_lines_with_keys(shell: Shell, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a=1\nb=2\n")
    produced = shell.run("produce", topic, str(file), "-k", "=", "--partition", "0", "--compression", "zstd")
    assert (produced.exit_code, produced.stdout) == (0, "")
    assert produced.stderr.startswith("produced 2 records")
    assert shell.run("consume", topic, "--from", "beginning", "-e").stdout == "1\n2\n"
    assert shell.run("consume", topic, "--from", "beginning", "-e", "-k", ": ").stdout == "a: 1\nb: 2\n"


def test_a_wrong_line_stops_the_input_there(shell: Shell, topic: str) -> None:
    result = shell.run("produce", topic, "-i", "json", "--partition", "0", text='{"value": "1"}\n{"vaule": "2"}\n')
    assert (result.exit_code, "line 2: unknown field 'vaule'" in result.stderr) == (2, True)
    assert [record["value"] for record in shell.consume(topic, "--from", "beginning", "-e")] == ["1"]


def test_a_refused_record_is_told(shell: Shell, topic: str) -> None:
    shell.json("topic", "alter", topic, "--set", "max.message.bytes=200")
    result = shell.run("produce", topic, text="x" * 1000 + "\n")
    assert (result.exit_code, "max.message.bytes" in result.stderr) == (1, True)


def test_where_to_start(shell: Shell, topic: str) -> None:
    sent = [{"value": str(number), "partition": 0, "timestamp": 1700000000000 + number} for number in range(5)]
    shell.json("produce", topic, "--input", "json", text="".join(json.dumps(record) + "\n" for record in sent))

    def values(start: str) -> list[str]:
        return [record["value"] for record in shell.consume(topic, "--from", start, "--partition", "0", "-e")]

    assert values("3") == ["3", "4"]
    assert values("-1") == ["4"]
    assert values("@1700000000002") == ["2", "3", "4"]
    assert values("@1800000000000") == []
    assert values("end") == []


def test_count_and_timeout_end_it(shell: Shell, topic: str) -> None:
    shell.json("produce", topic, "--partition", "0", text="1\n2\n3\n")
    assert len(shell.consume(topic, "--from", "beginning", "--count", "2")) == 2
    assert len(shell.consume(topic, "--from", "beginning", "--timeout", "2")) == 3


def test_a_group_goes_on_where_it_was_and_can_be_moved(shell: Shell, topic: str, group: str) -> None:
    shell.json("produce", topic, "--partition", "0", text="1\n2\n3\n")
    first = shell.consume(topic, "--group", group, "--from", "beginning", "--count", "2")
    assert [record["value"] for record in first] == ["1", "2"]
    assert shell.offsets(group)[topic, 0] == (2, 1)
    rest = shell.consume(topic, "--group", group, "--from", "beginning", "--exit-at-end")
    assert [record["value"] for record in rest] == ["3"]
    assert group in {row["group"] for row in shell.json("group", "list")}

    planned = shell.json("group", "reset-offsets", group, "--to", "1", "--dry-run")
    assert {"topic": topic, "partition": 0, "old_offset": 3, "new_offset": 1} in planned
    assert shell.offsets(group)[topic, 0] == (3, 0)
    shell.json("group", "reset-offsets", group, "--to", "1", "--topic", topic)
    assert shell.offsets(group)[topic, 0] == (1, 2)

    assert {"topic": topic, "partition": 0} in shell.json("group", "delete-offsets", group, "--topic", topic)
    assert (topic, 0) not in shell.offsets(group)


def test_a_group_that_is_gone(shell: Shell, topic: str, group: str) -> None:
    shell.json("produce", topic, text="1\n")
    shell.consume(topic, "--group", group, "--from", "beginning", "--count", "1")
    assert shell.json("group", "delete", group) == [{"group": group, "deleted": True}]
    assert group not in {row["group"] for row in shell.json("group", "list")}
    assert shell.run("group", "delete-offsets", group, "--topic", topic).exit_code == 1


def test_deleting_records_up_to_a_position(shell: Shell, topic: str) -> None:
    shell.json("produce", topic, "--partition", "0", text="1\n2\n3\n")
    rows = shell.json("topic", "delete-records", topic, "--before", "2", "--partition", "0", "--yes")
    assert rows == [{"partition": 0, "start_offset": 2}]
    assert [record["value"] for record in shell.consume(topic, "--from", "beginning", "-e")] == ["3"]


def test_a_transaction_is_listed_described_and_aborted(shell: Shell, topic: str, server: TestNode) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "hangs", "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, "never read", partition=1)
    producer.flush(10)
    (row,) = shell.json("transaction", "list", "--state", "Ongoing")
    assert (row["transactional_id"], row["state"]) == ("hangs", "Ongoing")
    described = shell.json("transaction", "describe", "hangs")
    assert described["partitions"] == [f"{topic}-1"]
    assert described["started"].startswith("20")
    assert shell.run("transaction", "abort", "hangs").exit_code == 1, "there is no terminal to ask"
    assert shell.json("transaction", "abort", "hangs", "--yes") == [{"transactional_id": "hangs", "aborted": True}]
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    assert shell.json("transaction", "list", "--state", "Ongoing") == []
    again = shell.run("transaction", "abort", "hangs", "--yes")
    assert again.exit_code == 1 and "no transaction under way" in again.stderr
    unknown = shell.run("transaction", "describe", "nobody")
    assert unknown.exit_code == 1 and "transaction list" in unknown.stderr
