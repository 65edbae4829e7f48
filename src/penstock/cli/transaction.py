"""`penstock transaction`: list and describe transactions, and abort one that hangs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.cli.confirm import YesOption, confirm
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    client_settings,
    connect_admin,
    refusals_told,
)
from penstock.cli.failure import fail
from penstock.cli.output import Output, OutputOption, show_fields, show_rows
from penstock.cli.transaction_requests import Described, describe_transaction, list_transactions
from penstock.config.address import Address

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List and describe transactions, and abort one that hangs.",
)

IdArgument = Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID")]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ELSEWHERE = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE})
_NOT_FOUND = 105
_ONGOING = "Ongoing"


@app.command("list", epilog="Example: penstock transaction list --state Ongoing")
def list_all(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only those in this state, such as Ongoing; may be repeated.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the transactional ids, and how their transactions stand."""
    admin = connect_admin(bootstrap)
    rows = []
    with refusals_told(bootstrap):
        for node_id, address in _nodes(admin).items():
            rows += [
                {
                    "transactional_id": each.transactional_id,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "coordinator": node_id,
                }
                for each in list_transactions(address, state or [])
            ]
    rows.sort(key=lambda row: str(row["transactional_id"]))
    show_rows(output, rows, ["transactional_id", "state", "producer_id", "coordinator"])


@app.command(epilog="Example: penstock transaction describe billing-1")
def describe(
    transactional_id: IdArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TEXT
) -> None:
    """Show who has a transactional id, and the partitions of its transaction."""
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        coordinator, found = _find(admin, transactional_id)
    started = None if found.started_ms < 0 else _EPOCH + timedelta(milliseconds=found.started_ms)
    fields = {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started": None if started is None else started.isoformat(timespec="milliseconds"),
        "coordinator": coordinator,
        "partitions": [f"{topic}-{partition}" for topic, partition in found.partitions],
    }
    show_fields(output, fields)


@app.command(epilog="Example: penstock transaction abort billing-1 --yes")
def abort(
    transactional_id: IdArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Abort the transaction under way. Whoever has the transactional id loses it, and has to start again."""
    settings = client_settings(bootstrap, **{"transactional.id": transactional_id})
    admin = connect_admin(bootstrap)
    with refusals_told(bootstrap):
        _, found = _find(admin, transactional_id)
        if found.state != _ONGOING:
            fail(f"{transactional_id} has no transaction under way: its state is {found.state}")
        confirm(
            f"Abort the transaction of {transactional_id}, and fence its producer?",
            yes,
            "its producer loses the transactional id",
        )
        # To take an id over is what ends the transaction of whoever had it.
        Producer(settings).init_transactions(REQUEST_TIMEOUT_S)
    show_rows(output, [{"transactional_id": transactional_id, "aborted": True}], ["transactional_id", "aborted"])


def _nodes(admin: AdminClient) -> dict[int, Address]:
    brokers = admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers
    return {node_id: Address(str(broker.host), broker.port) for node_id, broker in sorted(brokers.items())}


def _find(admin: AdminClient, transactional_id: str) -> tuple[int, Described]:
    """The coordinator's word, whoever that is."""
    refused = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
    for node_id, address in _nodes(admin).items():
        found = describe_transaction(address, transactional_id)
        if found.error_code == 0:
            return node_id, found
        if found.error_code == _NOT_FOUND:
            fail(f"no transactional id {transactional_id} is known", do="see them with: penstock transaction list")
        if found.error_code not in _ELSEWHERE:
            refused = KafkaError(found.error_code)
    raise KafkaException(refused)
