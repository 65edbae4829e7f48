"""Where to find the cluster, of readers and writers."""

from __future__ import annotations

import re

from penstock.spark.core.option_values import OptionError, OptionValues


def bootstrap_of(values: OptionValues, client: str) -> tuple[str, ...]:
    """host:port each; `client` is what Kafka calls whom the option is for."""
    text = values.text("kafka.bootstrap.servers")
    if text is None:
        raise OptionError(f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}")
    servers = tuple(server for part in text.split(",") if (server := part.strip()))
    for server in servers:
        # The protocol in front is Kafka's own habit.
        if not re.fullmatch(r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^:\s/]+):[0-9]{1,5}", server):
            raise OptionError(f"kafka.bootstrap.servers must be host:port, separated by commas, got '{server}'")
    if not servers:
        raise OptionError("No servers as specified value for option 'kafka.bootstrap.servers' is empty")
    return tuple(server.rpartition("://")[2] for server in servers)
