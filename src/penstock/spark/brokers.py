"""The way to the brokers of a cluster: one connection each, made when it is needed and again when it has gone."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.config.address import Address
from penstock.spark.connection import Connection
from penstock.spark.core.client_settings import ClientSettings
from penstock.spark.core.failures import Again, NoAnswer


class Brokers:
    """For one thread."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}

    def know(self, addresses: Mapping[int, Address]) -> None:
        """All brokers that there are now; connections to others go."""
        self._addresses = dict(addresses)
        keep = {*addresses.values(), *self._settings.bootstrap}
        for address in [address for address in self._connections if address not in keep]:
            self._connections.pop(address).close()

    def at(self, node_id: int) -> Connection:
        """Raises NoAnswer, and Again for a broker that metadata did not show."""
        address = self._addresses.get(node_id)
        if address is None:
            raise Again(f"no address is known for broker {node_id}")
        return self._to(address)

    def introduced(self, node_id: int, address: Address) -> Connection:
        """One that another broker has told of. Raises NoAnswer."""
        self._addresses[node_id] = address
        return self._to(address)

    def any(self) -> Connection:
        """Whoever answers. Raises NoAnswer with what each of them said."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        failures = []
        for address in dict.fromkeys((*self._addresses.values(), *self._settings.bootstrap)):
            try:
                return self._to(address)
            except NoAnswer as error:
                failures.append(str(error))
        raise NoAnswer("no broker answers: " + "; ".join(failures))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _to(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = Connection(address, self._settings)
        return connection
