"""How commands reach a node, and what they say when they do not."""

from __future__ import annotations

import concurrent.futures
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.cli.failure import EXIT_UNREACHABLE, fail
from penstock.config.address import Address

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 30.0

BootstrapOption = Annotated[
    str,
    typer.Option("--bootstrap", "-b", envvar="PENSTOCK_BOOTSTRAP", metavar="HOST:PORT", help="A node to start from."),
]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

_UNREACHABLE = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT}
)
# What to do about the refusals that people meet most.
_ADVICE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "see the topics with: penstock topic list",
    KafkaError._UNKNOWN_TOPIC: "see the topics with: penstock topic list",
    KafkaError._UNKNOWN_PARTITION: "see the partitions with: penstock topic describe TOPIC",
    KafkaError.TOPIC_ALREADY_EXISTS: "change it with: penstock topic alter, or choose another name",
    KafkaError.GROUP_ID_NOT_FOUND: "see the groups with: penstock group list",
    KafkaError.NON_EMPTY_GROUP: "stop its consumers first; penstock group describe GROUP shows them",
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC: "stop the consumers of that topic first",
    KafkaError.INVALID_CONFIG: "docs/reference/settings.md lists what can be set on a topic",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes with: penstock topic alter TOPIC --set max.message.bytes=N",
}


def client_settings(bootstrap: str, **more: Any) -> dict[str, Any]:
    """For any client of librdkafka. Fails the command at once if nobody listens there."""
    connected_first(bootstrap)
    # librdkafka writes its own lines to stderr; what matters reaches the caller as an error.
    return {"bootstrap.servers": bootstrap, "client.id": "penstock-cli", "log_level": 0, **more}


def connect_admin(bootstrap: str) -> AdminClient:
    return AdminClient(client_settings(bootstrap))


@contextmanager
def refusals_told(bootstrap: str) -> Iterator[None]:
    """Turns what the node or the network refused into words and an exit code."""
    try:
        yield
    except KafkaException as refusal:
        fail_with(refusal.args[0], bootstrap)


def fail_with(error: KafkaError, bootstrap: str) -> NoReturn:
    if error.code() in _UNREACHABLE:
        fail_unreachable(bootstrap, error.str())
    text = error.str() or error.name()
    fail(f"{text} ({error.name()})", do=_ADVICE.get(error.code(), ""))


def answer_of(futures: Mapping[Any, concurrent.futures.Future[T]]) -> T:
    """The only answer of an admin call about one thing."""
    (future,) = futures.values()
    return future.result(REQUEST_TIMEOUT_S)


def connected_first(bootstrap: str) -> Address:
    """The first of these where somebody listens. Fails the command at once if nobody does: librdkafka tries for a long

    time in silence.
    """
    last = ""
    for text in bootstrap.split(","):
        try:
            address = Address.parse(text.strip())
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {Address.wanted}", param_hint="--bootstrap") from None
        try:
            socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S).close()
            return address
        except OSError as error:
            last = str(error)
    return fail_unreachable(bootstrap, last)


def fail_unreachable(bootstrap: str, why: str) -> NoReturn:
    fail(
        f"no node answers at {bootstrap}: {why}",
        do="start one with: penstock serve, or say where it is with --bootstrap HOST:PORT",
        code=EXIT_UNREACHABLE,
    )
