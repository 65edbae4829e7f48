"""Who has used how much: messages, bytes and requests by tenant, topic and API, counted where the work is done.

Counting is on the way of every request, so a series that is known costs two lookups by strings that are at hand, and
nothing is made for it. What is counted is taken away as a whole, once per interval (`node/usage.py`); series are known
for an interval only, so that tenants that have gone make room for others.
"""

from __future__ import annotations

# Client ids are what clients say: a few thousand of the longest that a header can hold must not fill the memory.
MAX_TENANT_CHARACTERS = 256
# Tenant and topic of what was used beyond the most series that are told apart.
OTHER = "other"
NO_TOPIC = ""


def tenant_of(client_id: str) -> str:
    """The client id up to the first dot, so that one tenant can have many clients."""
    return client_id.partition(".")[0][:MAX_TENANT_CHARACTERS]


class Series:
    """One tenant's use of one API for one topic, since the interval began."""

    __slots__ = ("api", "messages", "requests", "size_bytes", "tenant", "topic")

    def __init__(self, tenant: str, topic: str, api: str) -> None:
        self.tenant = tenant
        self.topic = topic
        self.api = api
        self.messages = 0
        self.size_bytes = 0
        self.requests = 0


class ApiUsage:
    """Use of one API; whoever serves it has it for as long as the node lives."""

    def __init__(self, api: str, room: Room) -> None:
        self._api = api
        self._room = room
        # By tenant and topic. Where a call would cost as much as the counting, this is used as `find` does.
        self.series: dict[str, dict[str, Series]] = {}
        self._other: Series | None = None

    def count(self, tenant: str, topic: str, messages: int, size_bytes: int, requests: int) -> None:
        series = self.find(tenant, topic)
        series.messages += messages
        series.size_bytes += size_bytes
        series.requests += requests

    def take(self) -> list[Series]:
        """All that was counted; then nothing is."""
        taken = [series for topics in self.series.values() for series in topics.values()]
        if self._other is not None:
            taken.append(self._other)
        self.series.clear()
        self._other = None
        return taken

    def find(self, tenant: str, topic: str) -> Series:
        """Valid until others take what was counted, so look it up each time.

        `topic` is one that exists, or NO_TOPIC: names that clients make up would be as many as they like.
        """
        try:
            return self.series[tenant][topic]
        except KeyError:
            return self._open(tenant, topic)

    def _open(self, tenant: str, topic: str) -> Series:
        if self._room.left:
            self._room.left -= 1
            series = self.series.setdefault(tenant, {})[topic] = Series(tenant, topic, self._api)
            return series
        if self._other is None:
            self._other = Series(OTHER, OTHER, self._api)
        return self._other


class Room:
    """For series of all APIs."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Usage:
    """`max_series`: so many are told apart in an interval; beyond them there is one series for each API."""

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._room = Room(max_series)
        self._apis: dict[str, ApiUsage] = {}

    def of_api(self, name: str) -> ApiUsage:
        """Look it up once."""
        if name not in self._apis:
            self._apis[name] = ApiUsage(name, self._room)
        return self._apis[name]

    def take(self) -> list[Series]:
        """All that was counted since it was taken last."""
        taken = [series for api in self._apis.values() for series in api.take()]
        self._room.left = self._max_series
        return taken
