"""Hosts and ports, as settings give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True)
class Address:
    """HOST:PORT, an IPv6 host in brackets. Port 0 asks the system for a free one."""

    host: str
    port: int

    wanted: ClassVar[str] = "HOST:PORT, for example 127.0.0.1:9092 or [::1]:9092"

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError if it is none."""
        host, colon, port_text = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        # isdigit alone lets other scripts' digits through, which int would take.
        if not colon or not host or not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65535:
            raise ValueError(text)
        if ":" in host and not bracketed:
            raise ValueError(text)
        return cls(host[1:-1] if bracketed else host, int(port_text))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AdvertisedAddress(Address):
    """HOST:PORT as clients reach it, or nothing: both empty."""

    __slots__ = ()

    wanted: ClassVar[str] = "HOST:PORT as clients reach it, for example broker.example.com:9092, or nothing"

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError if it is neither."""
        if not text:
            return cls("", 0)
        address = super().parse(text)
        if not address.port:
            raise ValueError(text)
        return address

    def __str__(self) -> str:
        return super().__str__() if self.host else ""
