"""Why the client gave up. The texts are for whoever runs the query; Spark shows them."""

from __future__ import annotations


class ClientFailure(Exception):
    """Nothing that waiting would mend."""


class Unavailable(ClientFailure):
    """It has waited: nobody answered, or those who did could not, for as long as the settings allow."""


class TopicMissing(ClientFailure):
    """There is no topic, or no partition, of that name."""


class DataLoss(ClientFailure):
    """Records that were to be read are not there any more."""


class TopicRecreated(DataLoss):
    """The topic was deleted, and another one has its name."""
