"""Settings of the two ports, and of what clients may take there."""

from penstock.config.address import Address, AdvertisedAddress
from penstock.config.setting import Scope, Section, section, setting
from penstock.units import MIB, MINUTE_MS


@section(scope=Scope.NODE)
class NetworkSettings(Section):
    # Loopback, because nothing asks who a client is: opening the port to others is the operator's decision.
    listen: Address = setting(
        Address("127.0.0.1", 9092),
        name="listen",
        doc="Where Kafka clients connect. Port 0 takes a free one. 0.0.0.0 opens it to everyone who reaches the host.",
    )
    advertised_listener: AdvertisedAddress = setting(
        AdvertisedAddress("", 0),
        name="advertised.listener",
        doc="Where clients are told to connect. Empty: the address at which they reached this node. Set it when that "
        "is not the one to come back to, behind a proxy or a forwarded port, say.",
    )
    http: Address = setting(
        Address("127.0.0.1", 9324),
        name="http",
        doc="Where /metrics and /health are served. Port 0 takes a free one.",
    )
    max_connections: int = setting(
        10_000,
        name="max.connections",
        at_least=1,
        doc="Connections beyond this are closed at once. Each needs a file descriptor: keep it below `ulimit -n`.",
    )
    connections_max_idle_ms: int = setting(
        10 * MINUTE_MS,
        name="connections.max.idle.ms",
        at_least=1,
        doc="A connection that is silent for this long is closed. Clients reconnect by themselves.",
    )
    socket_request_max_bytes: int = setting(
        100 * MIB,
        name="socket.request.max.bytes",
        at_least=1024,
        at_most=2**31 - 1,
        doc="The largest Produce request; all other requests have a smaller limit of their own. A larger one is "
        "refused by closing the connection.",
    )
    queued_max_request_bytes: int = setting(
        256 * MIB,
        name="queued.max.request.bytes",
        at_least=MIB,
        doc="The memory that requests on their way in may take, over all connections. Beyond it clients are not read "
        "from until others are done. Raise it when many clients send large batches at once.",
    )
    queued_max_response_bytes: int = setting(
        128 * MIB,
        name="queued.max.response.bytes",
        at_least=MIB,
        doc="The memory that replies may take while their clients do not read them, over all connections. Near it "
        "fetches are answered with fewer records, down to one batch; beyond it a client that has not read for ten "
        "seconds is closed. Raise it when many consumers with slow links fetch a lot at once.",
    )
